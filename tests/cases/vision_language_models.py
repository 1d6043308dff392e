"""Small vision-language models of transformers with random weights, by family."""

from __future__ import annotations

from typing import Any

from tests.cases.language_models import EXPERTS, FED, model_of

IMAGE = 98
WRITER = {**FED, "num_hidden_layers": 1, "num_key_value_heads": 2, "max_position_embeddings": 256}
EYES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 16,
    "patch_size": 8,
}
MARKS = {"image_token_id": IMAGE, "video_token_id": 97, "vision_start_token_id": 95, "vision_end_token_id": 96}
IN_GRIDS = {
    **MARKS,
    "text_config": {
        **WRITER,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]},
    },
}
SQUARE = {**EYES, "model_type": "siglip_vision_model"}
IDEFICS = {
    "text_config": {**WRITER, "model_type": "llama"},
    "vision_config": {**EYES, "image_size": 32},
    "image_token_id": IMAGE,
    "scale_factor": 2,
}
PIXTRAL = {**EYES, "model_type": "pixtral", "patch_size": 4, "head_dim": 8}
WINDOWS = ["sliding_attention", "full_attention"]
PATCHES = {"depth": 2, "hidden_size": 32, "num_heads": 4, "patch_size": 4}

DEEP: dict[str, Any] = {
    **MARKS,
    "text_config": {
        **WRITER,
        "num_hidden_layers": 2,
        "head_dim": 8,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]},
    },
    "vision_config": {
        **PATCHES,
        "intermediate_size": 48,
        "out_hidden_size": 32,
        "num_position_embeddings": 16,
        "deepstack_visual_indexes": [0],
    },
}
"""Features of images for further layers."""

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "LLaVA": (
        "LlavaForConditionalGeneration",
        {
            "text_config": {**WRITER, "model_type": "llama"},
            "vision_config": {**EYES, "model_type": "clip_vision_model"},
            "image_token_index": IMAGE,
        },
    ),
    "VipLLaVA": (
        "VipLlavaForConditionalGeneration",
        {
            "text_config": {**WRITER, "model_type": "llama"},
            "vision_config": {**EYES, "model_type": "clip_vision_model"},
            "image_token_index": IMAGE,
            "vision_feature_layers": [-1, -2],
        },
    ),
    "Qwen2-VL": (
        "Qwen2VLForConditionalGeneration",
        {**IN_GRIDS, "vision_config": {**PATCHES, "embed_dim": 32, "mlp_ratio": 2}},
    ),
    "Qwen2.5-VL": (
        "Qwen2_5_VLForConditionalGeneration",
        {
            **IN_GRIDS,
            "vision_config": {
                **PATCHES,
                "out_hidden_size": 32,
                "intermediate_size": 48,
                "window_size": 16,
                "fullatt_block_indexes": [1],
            },
        },
    ),
    "Gemma3": (
        "Gemma3ForConditionalGeneration",
        {
            "text_config": {
                **WRITER,
                "num_hidden_layers": 2,
                "head_dim": 8,
                "sliding_window": 4,
                "layer_types": WINDOWS,
            },
            "vision_config": {**SQUARE, "image_size": 32},
            "mm_tokens_per_image": 4,
            "image_token_id": IMAGE,
        },
    ),
    "PaliGemma": (
        "PaliGemmaForConditionalGeneration",
        {
            "tie_word_embeddings": False,
            "text_config": {**WRITER, "model_type": "gemma", "head_dim": 8},
            "vision_config": {**SQUARE, "projection_dim": 32},
            "projection_dim": 32,
            "image_token_id": IMAGE,
        },
    ),
    "PaliGemma 2": (
        "PaliGemmaForConditionalGeneration",
        {
            "text_config": {
                **WRITER,
                "model_type": "gemma2",
                "num_hidden_layers": 2,
                "head_dim": 8,
                "sliding_window": 4,
            },
            "vision_config": {**SQUARE, "projection_dim": 32},
            "projection_dim": 32,
            "image_token_id": IMAGE,
        },
    ),
    "InternVL": (
        "InternVLForConditionalGeneration",
        {
            "tie_word_embeddings": False,
            "text_config": {**WRITER, "model_type": "qwen2"},
            "vision_config": {**EYES, "image_size": [16, 16], "patch_size": [4, 4], "model_type": "internvl_vision"},
            "image_token_id": IMAGE,
            "downsample_ratio": 0.5,
        },
    ),
    "Idefics3": ("Idefics3ForConditionalGeneration", IDEFICS),
    "SmolVLM": ("SmolVLMForConditionalGeneration", IDEFICS),
    "Mistral3": (
        "Mistral3ForConditionalGeneration",
        {
            "tie_word_embeddings": False,
            "text_config": {**WRITER, "model_type": "mistral", "head_dim": 8},
            "vision_config": PIXTRAL,
            "image_token_id": IMAGE,
            "spatial_merge_size": 2,
        },
    ),
    "LightOnOCR": (
        "LightOnOcrForConditionalGeneration",
        {
            "tie_word_embeddings": False,
            "text_config": {**WRITER, "model_type": "qwen3", "head_dim": 8},
            "vision_config": PIXTRAL,
            "image_token_id": IMAGE,
            "spatial_merge_size": 2,
        },
    ),
    "Qwen3-VL": ("Qwen3VLForConditionalGeneration", DEEP),
    "Qwen3-VL-MoE": (
        "Qwen3VLMoeForConditionalGeneration",
        {**DEEP, "text_config": {**DEEP["text_config"], **EXPERTS}},
    ),
    "GLM-4V": (
        "Glm4vForConditionalGeneration",
        {
            **MARKS,
            "image_start_token_id": 95,
            "image_end_token_id": 96,
            "text_config": {
                **WRITER,
                "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]},
            },
            "vision_config": {**PATCHES, "image_size": 16, "intermediate_size": 48, "out_hidden_size": 32},
        },
    ),
    "Aya Vision": (
        "AyaVisionForConditionalGeneration",
        {
            "tie_word_embeddings": False,
            "text_config": {
                **WRITER,
                "model_type": "cohere2",
                "tie_word_embeddings": False,
                "head_dim": 8,
                "sliding_window": 4,
            },
            "vision_config": SQUARE,
            "image_token_id": IMAGE,
            "downsample_factor": 2,
            "vision_feature_layer": -1,
        },
    ),
    "Cohere2 Vision": (
        "Cohere2VisionForConditionalGeneration",
        {
            "tie_word_embeddings": False,
            "text_config": {
                **WRITER,
                "model_type": "cohere2",
                "tie_word_embeddings": False,
                "head_dim": 8,
                "sliding_window": 4,
            },
            "vision_config": SQUARE,
            "image_token_id": IMAGE,
            "alignment_intermediate_size": 64,
        },
    ),
    "GOT-OCR2": (
        "GotOcr2ForConditionalGeneration",
        {
            "tie_word_embeddings": False,
            "text_config": {**WRITER, "model_type": "qwen2"},
            "vision_config": {
                "hidden_size": 32,
                "output_channels": 16,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "image_size": 64,
                "patch_size": 4,
                "window_size": 4,
                "mlp_dim": 64,
                "global_attn_indexes": [1],
            },
            "image_token_id": IMAGE,
        },
    ),
}
"""Model class and config, by family."""

QUICK = ("LLaVA", "PaliGemma")
"""Families that every run of the tests takes."""

KINDS: dict[str, dict[str, Any]] = {
    **{
        kind: {"mm_token_type_ids": lambda marked: marked.int()}
        for kind in ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "glm4v")
    },
    "gemma3": {"token_type_ids": lambda marked: marked.int()},
    "paligemma": {"token_type_ids": lambda marked: marked.int() * 0},
}
"""Kinds of tokens of a prompt by the type of the model, as its processor gives them."""

NOTES = {
    "Gemma3": {"FXP1004"},
    "Idefics3": {"FXP2005", "FXP4001"},
    "SmolVLM": {"FXP2005", "FXP4001"},
    "GOT-OCR2": {"FXP4001"},
    "GLM-4V": {"FXP4001"},
}
"""Notes about what these models compute: how they were captured, tiles that are left out, and integers as floats."""


def made(name: str) -> Any:
    """The model of a row."""
    return model_of(*MODELS[name])
