"""The gradients of pools: each value goes back to where its maximum was, or in equal parts to its window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import product
from fxport.exporter.lowering.lowerings.index_put import WIDER
from fxport.exporter.lowering.lowerings.pool import window_counts
from fxport.exporter.lowering.lowerings.windows import cropped, numbers, spatial_axes, unless

aten = torch.ops.aten


@lowering(aten.max_pool2d_with_indices_backward.default, aten.max_pool3d_with_indices_backward.default)
def max_pool_backward(
    op: Op,
    grad_output: Value,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Value,
) -> Value:
    """max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor"""  # noqa: E501
    return _scattered(op, grad_output, x, indices)


@lowering(aten.adaptive_max_pool2d_backward.default, aten.adaptive_max_pool3d_backward.default)
def adaptive_max_pool_backward(op: Op, grad_output: Value, x: Value, indices: Value) -> Value:
    """adaptive_max_pool2d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor"""
    return _scattered(op, grad_output, x, indices)


@lowering(aten.fractional_max_pool2d_backward.default, aten.fractional_max_pool3d_backward.default)
def fractional_max_pool_backward(
    op: Op, grad_output: Value, x: Value, kernel_size: Sequence[int], output_size: Sequence[int], indices: Value
) -> Value:
    """fractional_max_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] output_size, Tensor indices) -> Tensor"""  # noqa: E501
    return _scattered(op, grad_output, x, indices)


def _scattered(op: Op, grad: Value, x: Value, indices: Value) -> Value:
    """Each value added to its place in the flattened plane; windows that overlap may share one. Halves as FLOAT."""
    axes = spatial_axes(op)
    lead, plane, bins = op.sizes(x)[:-axes], op.sizes(x)[-axes:], op.sizes(grad)[-axes:]
    rows = [*lead, product(bins)]
    wide = op.cast(grad, WIDER.get(grad.dtype, grad.dtype))  # type: ignore[arg-type]  # a gradient has a dtype
    zeros = op.Expand(op.const(0.0, like=wide), op.shape([*lead, product(plane)]))
    places, values = op.reshape(indices, rows), op.reshape(wide, rows)
    added = op.ScatterElements(zeros, places, values, axis=-1, reduction="add")
    return op.cast(op.reshape(op.typed(added, [*lead, product(plane)]), op.sizes(x)), op.out.dtype)


@lowering(aten.avg_pool2d_backward.default, aten.avg_pool3d_backward.default)
def avg_pool_backward(
    op: Op,
    grad: Value,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Value:
    """avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor

    ConvTranspose by ones, one channel at a time, of the values divided by how many elements each averaged.
    """  # noqa: E501
    axes = spatial_axes(op)
    kernel = numbers(kernel_size, axes, "kernel size")
    steps = numbers(stride, axes, "stride") if stride else kernel
    before = numbers(padding, axes, "padding")
    lead, sizes, bins = op.sizes(x)[:-axes], op.sizes(x)[-axes:], op.sizes(grad)[-axes:]
    if divisor is None:
        counts = window_counts(op, grad, sizes, kernel, steps, before, ceil_mode, count_include_pad)
    else:
        counts = op.const(divisor, like=grad)
    share = op.typed(op.Div(grad, counts), op.sizes(grad))
    rows = op.reshape(share, [product(lead), 1, *bins])
    ones = op.const(np.ones((1, 1, *kernel)), dtype=grad.dtype)
    full = [(out - 1) * step + size for out, step, size in zip(bins, steps, kernel, strict=True)]
    y = op.typed(op.ConvTranspose(rows, ones, strides=unless(steps, 1)), [product(lead), 1, *full])
    return op.reshape(cropped(op, y, before, sizes), op.sizes(x))
