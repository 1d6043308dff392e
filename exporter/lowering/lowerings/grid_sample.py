"""Images and volumes looked up at the places of a grid."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import Unsupported, lowering

aten = torch.ops.aten

PADDINGS: Mapping[int, str] = {0: "zeros", 1: "border", 2: "reflection"}
MODES: Mapping[int, str] = {0: "linear", 1: "nearest", 2: "cubic"}
OLD_MODES: Mapping[int, str] = {0: "bilinear", 1: "nearest", 2: "bicubic"}
"""Names of the modes before GridSample took volumes, too."""

VOLUMES_OPSET = 20
VOLUME_RANK = 5

OUTSIDE = -16.0
"""A coordinate that no pixel is near to, not even for cubic interpolation of two pixels; the image is [-1, 1]."""

FAR = 32768.0
"""Coordinates from here on are looked up nowhere. In float32, ONNX Runtime's weights are wrong from 2**24 pixels on,
its whole numbers from 2**63 on; PyTorch's reflections are a matter of rounding there."""


@lowering(aten.grid_sampler.default, aten.grid_sampler_2d.default, aten.grid_sampler_3d.default)
def grid_sampler(
    op: Op, x: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Value:
    """grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor

    GridSample is PyTorch's, down to the cubic coefficient -0.75 and rounding half to even, for places that are finite.
    """  # noqa: E501
    if op.rank(x) == VOLUME_RANK and op.opset < VOLUMES_OPSET:
        raise Unsupported(f"GridSample takes volumes from opset {VOLUMES_OPSET} on; this is opset {op.opset}")
    modes = MODES if op.opset >= VOLUMES_OPSET else OLD_MODES
    return op.GridSample(
        x,
        finite(op, grid, PADDINGS[padding_mode]),
        mode=modes[interpolation_mode],
        padding_mode=PADDINGS[padding_mode],
        align_corners=1 if align_corners else None,
    )


def finite(op: Op, grid: Value, padding: str) -> Value:
    """The grid with other places for those that are NaN, infinite or very far.

    Zeros are looked up outside of the image, as PyTorch does on CUDA; on the CPU it gives NaN for some of them. At a
    border an infinity is the last pixel and NaN the first. A reflection of either is the first.
    """
    if padding == "border":
        near = op.Clip(grid, op.const(OUTSIDE, like=grid), op.const(-OUTSIDE, like=grid))
        return op.Where(op.IsNaN(grid), OUTSIDE, near)
    instead = OUTSIDE if padding == "zeros" else -1.0
    return op.Where(op.Less(op.Abs(grid), FAR), grid, instead)
