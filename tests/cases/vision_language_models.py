"""Small vision-language models of transformers with random weights, by family."""

from __future__ import annotations

from typing import Any

from tests.cases.language_models import FED, model_of

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
PATCHES = {"depth": 2, "hidden_size": 32, "num_heads": 4, "patch_size": 4}

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
}
"""Model class and config, by family."""

QUICK = ("LLaVA", "Qwen2.5-VL")
"""Families that every run of the tests takes."""


def made(name: str) -> Any:
    """The model of a row."""
    return model_of(*MODELS[name])
