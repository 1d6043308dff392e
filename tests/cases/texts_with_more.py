"""Models of transformers that read or write text beside something else, small and with random weights.

Pictures, pages, tables, entities and speech; each with every dimension dynamic that the model allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from tests.cases.architectures import tokens
from tests.cases.models import Example, pixels
from tests.cases.pictures_and_sounds import BATCH, NARROW, SPEECH, Row, of_transformers

TEXT = {0: "batch", 1: "sequence"}
TARGET = {0: "batch", 1: "target"}
FRAMES = {0: "batch", 1: "frames"}
IMAGE_ID = 98

READER = {**NARROW, "vocab_size": 99}
WRITER = {
    **READER, "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "use_cache": False,
}  # fmt: skip
EYES = {**NARROW, "image_size": 32, "patch_size": 16}
TWO_PARTS = {
    "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "use_cache": False,
}  # fmt: skip

Inputs = Mapping[str, tuple[Any, Any]]
"""By name: a value, and its dynamic dimensions."""


def row(model: str, config: str, inputs: Callable[[], Inputs], **fields: Any) -> Row:
    def build() -> Example:
        made = inputs()
        values = {name: value for name, (value, _) in made.items()}
        shapes = {name: shape for name, (_, shape) in made.items()}
        return of_transformers(config, model, values, shapes, fields)

    return Row(model, "transformers", build)


def described(model: str, config: str, count: int, fields: Mapping[str, Any], quick: bool = False, **more: Any) -> Row:
    """A text in which `count` ids stand for the parts of a picture. A field may be (config, fields of it)."""

    def build() -> Example:
        hf = import_module("transformers")
        ids = tokens(2, 5)
        ids = torch.cat([ids[:, :2], torch.full((2, count), IMAGE_ID), ids[:, 2:]], 1)
        values = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": pixels(2, 32)}
        values |= {name: make() for name, make in more.items()}
        shapes = {"input_ids": TEXT, "attention_mask": TEXT, "pixel_values": BATCH, **dict.fromkeys(more, BATCH)}
        inner = {
            name: getattr(hf, value[0])(**value[1]) if isinstance(value, tuple) else value
            for name, value in fields.items()
        }
        return of_transformers(config, model, values, shapes, inner)

    return Row(model, "transformers", build, quick=quick)


def text() -> dict[str, tuple[Tensor, Any]]:
    ids = tokens(2, 7)
    return {"input_ids": (ids, TEXT), "attention_mask": (torch.ones_like(ids), TEXT)}


def boxes() -> Inputs:
    return {**text(), "bbox": (torch.randint(0, 50, (2, 7, 4)).sort(-1)[0], TEXT)}


def table() -> Inputs:
    return {**text(), "token_type_ids": (torch.randint(0, 2, (2, 7, 7)), TEXT)}


def entities() -> Inputs:
    shape = {0: "batch", 1: "entities"}
    return {
        **text(),
        "entity_ids": (torch.randint(1, 9, (2, 3)), shape),
        "entity_attention_mask": (torch.ones(2, 3, dtype=torch.int64), shape),
        "entity_position_ids": (torch.randint(0, 7, (2, 3, 4)), shape),
    }


def regions() -> Inputs:
    shape = {0: "batch", 1: "regions"}
    return {
        **text(),
        "visual_embeds": (torch.randn(2, 4, 16), shape),
        "visual_attention_mask": (torch.ones(2, 4), shape),
    }


def page() -> Inputs:
    shape = {0: "batch", 1: "patches"}
    places = torch.randint(0, 8, (2, 9, 2)).float()
    return {
        "flattened_patches": (torch.cat([places, torch.randn(2, 9, 48)], -1), shape),
        "attention_mask": (torch.ones(2, 9), shape),
        "decoder_input_ids": (tokens(2, 5), TARGET),
    }


def spoken() -> Inputs:
    return {
        **text(),
        "decoder_input_values": (torch.randn(2, 6, 8), FRAMES),
        "speaker_embeddings": (torch.randn(2, 12), BATCH),
    }


def patches() -> Inputs:
    """Pictures of two forms, cut into patches."""
    return {
        "pixel_values": (torch.randn(2, 16, 768), BATCH),
        "pixel_attention_mask": (torch.ones(2, 16, dtype=torch.int32), BATCH),
        "spatial_shapes": (torch.tensor([[4, 4], [3, 5]]), BATCH),
    }


def speaker() -> Inputs:
    samples = {0: "batch", 1: "samples"}
    mask = torch.ones(2, 800, dtype=torch.int64)
    mask[1, 600:] = 0
    return {"input_values": (torch.randn(2, 800), samples), "attention_mask": (mask, samples)}


CASES = (
    described(
        "InternVLForConditionalGeneration",
        "InternVLConfig",
        1,
        {
            "text_config": ("Qwen2Config", WRITER),
            "vision_config": {**EYES, "image_size": [32, 32], "patch_size": [16, 16]},
            "image_token_id": IMAGE_ID,
            "image_seq_length": 1,
        },
        quick=True,
    ),
    described(
        "VipLlavaForConditionalGeneration",
        "VipLlavaConfig",
        4,
        {
            "text_config": ("LlamaConfig", WRITER),
            "vision_config": ("CLIPVisionConfig", EYES),
            "image_token_index": IMAGE_ID,
            "vision_feature_layers": [-1, -2],
        },
    ),
    described(
        "AyaVisionForConditionalGeneration",
        "AyaVisionConfig",
        1,
        {
            "text_config": ("Cohere2Config", {**WRITER, "sliding_window": 4}),
            "vision_config": ("SiglipVisionConfig", EYES),
            "image_token_index": IMAGE_ID,
            "downsample_factor": 2,
        },
    ),
    described(
        "InstructBlipForConditionalGeneration",
        "InstructBlipConfig",
        4,
        {
            "vision_config": EYES,
            "qformer_config": {**READER, "encoder_hidden_size": 32},
            "text_config": ("OPTConfig", {**READER, "ffn_dim": 48, "word_embed_proj_dim": 32, "use_cache": False}),
            "num_query_tokens": 4,
            "image_token_index": IMAGE_ID,
        },
        qformer_input_ids=lambda: tokens(2, 6),
        qformer_attention_mask=lambda: torch.ones(2, 6, dtype=torch.int64),
    ),
    row("LayoutLMForTokenClassification", "LayoutLMConfig", boxes, **READER, max_2d_position_embeddings=64),
    row("TapasForQuestionAnswering", "TapasConfig", table, **READER, type_vocab_sizes=[3, 8, 8, 2, 8, 8, 10]),
    row("LukeForEntityClassification", "LukeConfig", entities, **READER, entity_vocab_size=20, entity_emb_size=16),
    row("VisualBertModel", "VisualBertConfig", regions, **READER, visual_embedding_dim=16),
    row("DPRReader", "DPRConfig", text, **READER),
    row(
        "Pix2StructForConditionalGeneration",
        "Pix2StructConfig",
        page,
        text_config={
            "hidden_size": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 99,
            "use_cache": False,
        },
        vision_config={**NARROW, "patch_embed_hidden_size": 48, "d_ff": 48, "d_kv": 8, "seq_len": 64},
    ),
    row(
        "SpeechT5ForTextToSpeech",
        "SpeechT5Config",
        spoken,
        **TWO_PARTS,
        hidden_size=32,
        vocab_size=99,
        speech_decoder_prenet_units=16,
        speech_decoder_postnet_units=16,
        speech_decoder_prenet_dropout=0.0,
        num_mel_bins=8,
        speaker_embedding_dim=12,
        reduction_factor=1,
    ),
    row(
        "BarkSemanticModel",
        "BarkSemanticConfig",
        text,
        hidden_size=32,
        num_layers=2,
        num_heads=4,
        block_size=64,
        input_vocab_size=99,
        output_vocab_size=99,
        use_cache=False,
    ),
    row("Siglip2VisionModel", "Siglip2VisionConfig", patches, **NARROW, num_patches=16),
    row(
        "Wav2Vec2ForXVector",
        "Wav2Vec2Config",
        speaker,
        **SPEECH,
        tdnn_dim=(16, 16, 16, 16, 16),
        xvector_output_dim=16,
    ),
)  # fmt: skip
