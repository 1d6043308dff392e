"""Models that are not about text, small and with random weights, of the libraries that people take them from.

A row names the package that it needs; where that is not installed its test is skipped. torchvision and timm are those
of the installed PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import torch

from tests.cases.models import Example, pixels

BATCH = {0: "batch"}
SIZED = {0: "batch", 2: "height", 3: "width"}
SAMPLES = {0: "batch", 1: "samples"}
GRAPH = ({0: "nodes"}, {1: "edges"})


@dataclass(frozen=True)
class Row:
    """`build` is called after the seed is set. `known_gap` is a strict xfail that begins with the rule reported. A
    `quick` row is part of the usual run."""

    name: str
    package: str
    build: Callable[[], Example]
    known_gap: str | None = None
    quick: bool = False


STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
NARROW = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
PATCHES = {**NARROW, "image_size": 64, "patch_size": 16}
SPEECH = {
    **NARROW,
    "vocab_size": 32,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "conv_dim": (32, 32, 32),
    "conv_stride": (5, 2, 2),
    "conv_kernel": (10, 3, 3),
    "num_feat_extract_layers": 3,
}


def of_transformers(
    config: str, model: str, inputs: Mapping[str, Any], shapes: Mapping[str, Any], fields: Mapping[str, Any]
) -> Example:
    hf = import_module("transformers")
    return Example(getattr(hf, model)(getattr(hf, config)(**fields)).eval(), (), inputs, shapes)


def image(config: str, model: str, shape: Any = BATCH, **fields: Any) -> Row:
    def build() -> Example:
        return of_transformers(config, model, {"pixel_values": pixels(2, 64)}, {"pixel_values": shape}, fields)

    return Row(model if shape is BATCH else f"{model}-sized", "transformers", build)


def speech(prefix: str, head: str, **fields: Any) -> Row:
    def build() -> Example:
        inputs = {"input_values": torch.randn(2, 800)}
        shapes = {"input_values": SAMPLES}
        return of_transformers(f"{prefix}Config", f"{prefix}{head}", inputs, shapes, {**SPEECH, **fields})

    return Row(f"{prefix}{head}", "transformers", build)


def interpolated() -> Example:
    inputs = {"pixel_values": pixels(2, 64), "interpolate_pos_encoding": True}
    return of_transformers("ViTConfig", "ViTForImageClassification", inputs, {"pixel_values": SIZED}, PATCHES)


def patch_series(head: str) -> Row:
    fields = {
        "num_input_channels": 3, "context_length": 32, "patch_length": 4, "patch_stride": 4, "d_model": 16,
        "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 24, "prediction_length": 4, "num_targets": 3,
    }  # fmt: skip

    def build() -> Example:
        inputs = {"past_values": torch.randn(2, 32, 3)}
        return of_transformers("PatchTSTConfig", f"PatchTST{head}", inputs, {"past_values": BATCH}, fields)

    return Row(f"PatchTST{head}", "transformers", build)


def of_torchvision(name: str) -> Row:
    def build() -> Example:
        model = import_module("torchvision.models").get_model(name, weights=None)
        return Example(model.eval(), (pixels(2, 64),), {}, (SIZED,))

    return Row(name, "torchvision", build)


def of_timm(name: str, shape: Any = SIZED, size: int = 96, **options: Any) -> Row:
    def build() -> Example:
        model = import_module("timm").create_model(name, num_classes=5, **options)
        return Example(model.eval(), (pixels(2, size),), {}, (shape,))

    return Row(name, "timm", build)


class Graph(torch.nn.Module):
    """Two convolutions over the edges of a graph."""

    def __init__(self, make: Callable[[int, int], torch.nn.Module]) -> None:
        super().__init__()
        self.first, self.second = make(6, 8), make(8, 4)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x, edges)), edges)


def of_graphs(name: str, **options: Any) -> Row:
    def build() -> Example:
        layer = partial(getattr(import_module("torch_geometric.nn"), name), **options)
        return Example(Graph(layer).eval(), (torch.randn(8, 6), torch.randint(0, 8, (2, 20))), {}, GRAPH)

    return Row(name, "torch_geometric", build)


def unet() -> Example:
    model = import_module("diffusers").UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=4,
        layers_per_block=1,
    )
    inputs = {
        "sample": torch.randn(2, 4, 16, 16),
        "timestep": torch.tensor([3.0, 3.0]),
        "encoder_hidden_states": torch.randn(2, 7, 16),
    }
    shapes = {"sample": SIZED, "timestep": BATCH, "encoder_hidden_states": {0: "batch", 1: "sequence"}}
    return Example(model.eval(), (), {**inputs, "return_dict": False}, shapes)


def autoencoder() -> Example:
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    model = import_module("diffusers").AutoencoderKL(block_out_channels=(8, 16), norm_num_groups=4, **blocks)
    return Example(model.eval(), (), {"sample": pixels(2, 16), "return_dict": False}, {"sample": SIZED})


CASES = (
    image("BeitConfig", "BeitForImageClassification", **PATCHES),
    image("VitDetConfig", "VitDetModel", pretrain_image_size=64, **PATCHES),
    image("RegNetConfig", "RegNetForImageClassification", SIZED, embedding_size=8, groups_width=8, **STAGES),
    image("DINOv3ConvNextConfig", "DINOv3ConvNextModel", SIZED, **STAGES),
    image("YolosConfig", "YolosForObjectDetection", **{**PATCHES, "image_size": [64, 64], "num_detection_tokens": 10}),
    Row("ViT-interpolated", "transformers", interpolated),
    speech("Wav2Vec2", "ForCTC"),
    speech("Hubert", "ForCTC"),
    speech("WavLM", "ForCTC"),
    speech("Wav2Vec2", "ForAudioFrameClassification"),
    patch_series("ForPrediction"),
    patch_series("ForClassification"),
    Row("UNet2DCondition", "diffusers", unet),
    Row("AutoencoderKL", "diffusers", autoencoder),
    of_torchvision("resnet18"),
    of_torchvision("squeezenet1_0"),
    of_torchvision("mobilenet_v2"),
    of_timm("resnet10t"),
    of_timm("convnext_atto"),
    of_timm("vit_tiny_patch16_224", BATCH, 64, img_size=64, depth=2),
    of_graphs("GCNConv"),
    of_graphs("SAGEConv"),
    of_graphs("GATConv", heads=2, concat=False),
    of_graphs("TransformerConv", heads=2, concat=False),
)
