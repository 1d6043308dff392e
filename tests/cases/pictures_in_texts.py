"""Models of transformers that read pictures of many sizes, or sounds, within a text, small and with random weights.

Where Python asks for the sizes of the pictures, these become constants; the text stays dynamic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from tests.cases.architectures import tokens
from tests.cases.models import Example, pixels
from tests.cases.pictures_and_sounds import BATCH, NARROW, Row, of_transformers
from tests.cases.texts_with_more import EYES, IMAGE_ID, TEXT, WRITER

WRITER_3D = {
    **WRITER,
    "head_dim": 8,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]},
}
SIZED = {1: "sequence"}
FOUR_BY_FOUR = torch.tensor([[1, 4, 4], [1, 4, 4]])


def marked(count: int) -> Tensor:
    """Ids of two texts, in which `count` stand for the parts of a picture or a sound."""
    ids = tokens(2, 5)
    return torch.cat([ids[:, :2], torch.full((2, count), IMAGE_ID), ids[:, 2:]], 1)


def in_text(
    name: str, count: int, more: Callable[[], Mapping[str, Any]], shapes: Mapping[str, Any], **fields: Any
) -> Row:
    """A model for conditional generation; its text has a batch of any size where what stands in it has."""

    def build() -> Example:
        ids = marked(count)
        text = TEXT if any(shapes.values()) else SIZED
        values = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **more()}
        dims = {"input_ids": text, "attention_mask": text, **shapes}
        made = of_transformers(f"{name}Config", f"{name}ForConditionalGeneration", values, dims, _built(fields))
        return Example(made.model, (), values, dims, constants=text is SIZED)

    return Row(f"{name}ForConditionalGeneration", "transformers", build)


def _built(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A field may be (config, fields of it)."""
    hf = import_module("transformers")
    pairs = {name: value for name, value in fields.items() if isinstance(value, tuple)}
    return {**fields, **{name: getattr(hf, config)(**inner) for name, (config, inner) in pairs.items()}}


def in_grids(name: str, **vision: Any) -> Row:
    """Two pictures of four by four patches each, of which every four make one part of the text."""

    def pictures() -> dict[str, Any]:
        size = vision.get("temporal_patch_size", 2) * vision["patch_size"] ** 2
        positions = torch.arange(9).expand(3, 2, -1).clone()
        return {"position_ids": positions, "pixel_values": torch.randn(32, 3 * size), "image_grid_thw": FOUR_BY_FOUR}

    def build() -> Example:
        made = row.build()
        made.dynamic_shapes["position_ids"] = {2: "sequence"}
        return made

    shapes = {"position_ids": None, "pixel_values": None, "image_grid_thw": None}
    special = {"image_token_id": IMAGE_ID, "video_token_id": 97, "vision_start_token_id": 95, "vision_end_token_id": 96}
    row = in_text(name, 4, pictures, shapes, text_config=WRITER_3D, vision_config=vision, **special)
    return replace(row, build=build)


def sized() -> dict[str, Tensor]:
    return {"pixel_values": pixels(2, 32), "image_sizes": torch.tensor([[32, 32], [32, 32]])}


CASES = (
    in_grids("Qwen2VL", depth=1, embed_dim=32, hidden_size=32, num_heads=4, mlp_ratio=2, patch_size=14),
    in_grids(
        "Qwen2_5_VL",
        depth=2,
        hidden_size=32,
        out_hidden_size=32,
        intermediate_size=48,
        num_heads=4,
        patch_size=14,
        window_size=56,
        fullatt_block_indexes=[1],
    ),
    in_grids(
        "Qwen3VL",
        depth=2,
        hidden_size=32,
        out_hidden_size=32,
        intermediate_size=48,
        num_heads=4,
        patch_size=4,
        num_position_embeddings=16,
        deepstack_visual_indexes=[0],
    ),
    in_text(
        "Mistral3",
        1,
        sized,
        {"pixel_values": None, "image_sizes": None},
        text_config=("MistralConfig", {**WRITER, "head_dim": 8, "sliding_window": None}),
        vision_config=("PixtralVisionConfig", {**EYES, "head_dim": 8}),
        image_token_index=IMAGE_ID,
        vision_feature_layer=-1,
        spatial_merge_size=2,
    ),
    in_text(
        "LlavaNext",
        10,
        lambda: {"pixel_values": torch.randn(2, 2, 3, 32, 32), "image_sizes": torch.tensor([[32, 32], [32, 32]])},
        {"pixel_values": None, "image_sizes": None},
        text_config=("LlamaConfig", WRITER),
        vision_config=("CLIPVisionConfig", EYES),
        image_token_index=IMAGE_ID,
        image_grid_pinpoints=[[32, 32], [32, 64]],
        vision_feature_layer=-1,
    ),
    in_text(
        "PaliGemma",
        4,
        lambda: {"pixel_values": pixels(2, 32)},
        {"pixel_values": BATCH},
        text_config=("GemmaConfig", {**WRITER, "head_dim": 8}),
        vision_config=("SiglipVisionConfig", {**EYES, "projection_dim": 32}),
        image_token_index=IMAGE_ID,
        projection_dim=32,
    ),
    in_text(
        "Voxtral",
        2,
        lambda: {"input_features": torch.randn(2, 16, 16)},
        {"input_features": BATCH},
        audio_config={**NARROW, "intermediate_size": 128, "num_mel_bins": 16, "max_source_positions": 8},
        text_config={**WRITER, "head_dim": 8, "model_type": "llama"},
        audio_token_id=IMAGE_ID,
    ),
    in_text(
        "Llama4",
        1,
        lambda: {"pixel_values": pixels(2, 32)},
        {"pixel_values": BATCH},
        text_config={
            **WRITER,
            "head_dim": 8,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            "intermediate_size_mlp": 48,
            "attention_chunk_size": 4,
        },
        vision_config={
            **EYES,
            "intermediate_size": 128,
            "projector_input_dim": 32,
            "projector_output_dim": 32,
            "vision_output_dim": 32,
            "pixel_shuffle_ratio": 0.5,
        },
        image_token_index=IMAGE_ID,
    ),
    Row(
        "EomtForUniversalSegmentation",
        "transformers",
        lambda: of_transformers(
            "EomtConfig",
            "EomtForUniversalSegmentation",
            {"pixel_values": pixels(2, 32)},
            {"pixel_values": BATCH},
            {**NARROW, "image_size": 32, "patch_size": 8, "num_queries": 5, "num_blocks": 1, "num_upscale_blocks": 1},
        ),
    ),
)
"""Qwen-VL is given the positions of its text: it would group the tokens of each text by a loop of Python's."""
