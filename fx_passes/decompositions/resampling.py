"""Gradients of what resizes a picture: each axis by itself, and linearly, so that a matrix product does it.

The matrix of an axis is what the op makes of the identity: its column for an output says how much of each input is in
it. The gradient of an input is then the product of the output's gradient with the transposed matrix of each axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

Resize = Callable[..., Tensor]
"""(pictures, sizes, *options of all axes, scales): one axis of [1, in, in] or [1, in, 1, in] to [1, in, …, out]."""


def _line(target: Resize) -> Callable[..., Tensor]:
    """The matrix [in, out] by an op for one axis."""

    def matrix(rows: Tensor, out: Any, *options: Any) -> Tensor:
        return target(rows.unsqueeze(0), [out], *options)[0]

    return matrix


def _plane(target: Resize) -> Callable[..., Tensor]:
    """The matrix [in, out] by an op for two axes, of which one has the size 1 and so stays as it is."""

    def matrix(rows: Tensor, out: Any, align_corners: bool, scale: float | None) -> Tensor:
        return target(rows[None, :, None, :], [1, out], align_corners, None, scale)[0, :, 0]

    return matrix


def gradient_of(matrix: Callable[..., Tensor], options: int) -> Callable[..., Tensor]:
    """The backward op: (grad, output_size, input_size, *options, *scales), with a scale for each axis."""

    def gradient(grad: Tensor, output_size: Sequence[Any], input_size: Sequence[Any], *rest: Any) -> Tensor:
        axes = len(output_size)
        given, scales = rest[:options], [*rest[options:], *[None] * axes][:axes]
        return _through(grad, input_size[2:], lambda rows, axis, out: matrix(rows, out, *given, scales[axis]))

    return gradient


def averages_of(axes: int) -> Callable[..., Tensor]:
    """The backward op of `adaptive_avg_pool` over so many axes: (grad, input)."""
    pool = _line(aten.adaptive_avg_pool1d.default)

    def averages(grad: Tensor, x: Tensor) -> Tensor:
        return _through(grad, x.shape[-axes:], lambda rows, axis, out: pool(rows, out))

    return averages


def _through(grad: Tensor, sizes: Sequence[Any], matrix: Callable[[Tensor, int, Any], Tensor]) -> Tensor:
    """The product with the transposed matrix of each of the last axes; halves are summed in FLOAT."""
    dtype = torch.promote_types(grad.dtype, torch.float32)
    y = grad.to(dtype)
    for axis, size in enumerate(sizes):
        dim = axis - len(sizes)
        rows = torch.eye(size, dtype=dtype, device=grad.device)
        turned = matrix(rows, axis, grad.shape[dim]).t()
        y = torch.matmul(y, turned) if dim == -1 else torch.matmul(y.transpose(dim, -1), turned).transpose(dim, -1)
    return y.to(grad.dtype)


NEAREST, EXACT = _line(aten.upsample_nearest1d.default), _line(aten._upsample_nearest_exact1d.default)

RULES: Mapping[str, Callable[..., Any]] = {
    **{f"aten.upsample_nearest{axes}d_backward.default": gradient_of(NEAREST, 0) for axes in (1, 2, 3)},
    **{f"aten._upsample_nearest_exact{axes}d_backward.default": gradient_of(EXACT, 0) for axes in (1, 2, 3)},
    **{
        f"aten.upsample_{name}_backward.default": gradient_of(_line(aten.upsample_linear1d.default), 1)
        for name in ("linear1d", "bilinear2d", "trilinear3d")
    },
    "aten.upsample_bicubic2d_backward.default": gradient_of(_plane(aten.upsample_bicubic2d.default), 1),
    "aten._upsample_bilinear2d_aa_backward.default": gradient_of(_plane(aten._upsample_bilinear2d_aa.default), 1),
    "aten._upsample_bicubic2d_aa_backward.default": gradient_of(_plane(aten._upsample_bicubic2d_aa.default), 1),
    "aten._adaptive_avg_pool2d_backward.default": averages_of(2),
    "aten._adaptive_avg_pool3d_backward.default": averages_of(3),
}
