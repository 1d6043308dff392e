"""Images and volumes looked up at the places of a grid."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from exporter.lower.builder import Op, Value
from exporter.lower.registry import Unsupported, lowering

aten = torch.ops.aten

PADDINGS: Mapping[int, str] = {0: "zeros", 1: "border", 2: "reflection"}
MODES: Mapping[int, str] = {0: "linear", 1: "nearest", 2: "cubic"}
OLD_MODES: Mapping[int, str] = {0: "bilinear", 1: "nearest", 2: "bicubic"}
"""What the modes were called before GridSample took volumes, too."""

VOLUMES_OPSET = 20
VOLUME_RANK = 5


@lowering(aten.grid_sampler.default, aten.grid_sampler_2d.default, aten.grid_sampler_3d.default)
def grid_sampler(
    op: Op, x: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Value:
    """grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor

    GridSample is PyTorch's, down to the cubic coefficient -0.75 and rounding half to even. What a place that is not
    finite gives is not defined by ONNX.
    """  # noqa: E501
    if op.rank(x) == VOLUME_RANK and op.opset < VOLUMES_OPSET:
        raise Unsupported(f"GridSample takes volumes from opset {VOLUMES_OPSET} on; this is opset {op.opset}")
    modes = MODES if op.opset >= VOLUMES_OPSET else OLD_MODES
    return op.GridSample(
        x,
        grid,
        mode=modes[interpolation_mode],
        padding_mode=PADDINGS[padding_mode],
        align_corners=1 if align_corners else None,
    )
