"""The gradients of a convolution: convolutions themselves, with strides and dilations exchanged."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.symbols import Size, is_symbolic, plain
from fxport.exporter.lowering.lowerings.conv_batch_products import (
    input_by_products,
    input_is_served,
    weight_by_products,
    weight_is_served,
)
from fxport.exporter.lowering.lowerings.windows import cropped, numbers, unless

aten = torch.ops.aten


@lowering(aten.convolution_backward.default)
def convolution_backward(
    op: Op,
    grad_output: Value,
    x: Value,
    weight: Value,
    bias_sizes: Sequence[Size] | None,
    stride: Sequence[Size],
    padding: Sequence[Size],
    dilation: Sequence[Size],
    transposed: bool,
    output_padding: Sequence[Size],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:
    """convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)

    A transposed convolution is the gradient of a plain one, so what is grad and what is input change places with it.
    """  # noqa: E501
    axes = op.rank(weight) - 2
    steps, gaps = numbers(stride, axes, "stride"), numbers(dilation, axes, "dilation")
    before = numbers(padding, axes, "padding")
    wide, narrow = (grad_output, x) if transposed else (x, grad_output)
    by_input = by_weight = by_bias = None
    if output_mask[0] and not transposed and input_is_served(op, wide, narrow, groups, gaps):
        by_input = input_by_products(op, grad_output, x, weight, steps, before, gaps)
    elif output_mask[0]:
        to_input = _input_of_transposed if transposed else _input_of_plain
        by_input = to_input(op, grad_output, x, weight, steps, before, gaps, groups)
    if output_mask[1] and weight_is_served(op, wide, narrow, groups):
        by_weight = weight_by_products(op, wide, narrow, weight, steps, before, gaps)
    elif output_mask[1]:
        by_weight = _weight(op, wide, narrow, weight, steps, before, gaps, groups)
    if output_mask[2]:
        by_bias = op.ReduceSum(grad_output, [0, *range(2, axes + 2)], keepdims=0)
    return by_input, by_weight, by_bias


def _input_of_plain(
    op: Op,
    grad: Value,
    x: Value,
    weight: Value,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    """ConvTranspose. What a stride left over at the end is output padding; of unknown size it is padded afterwards."""
    axes = len(stride)
    kernel = numbers(op.sizes(weight)[2:], axes, "kernel size")
    full = [
        (out - 1) * step + gap * (size - 1) + 1
        for out, step, gap, size in zip(op.sizes(grad)[2:], stride, dilation, kernel, strict=True)
    ]
    missing = [
        plain(size + 2 * before - reach) for size, before, reach in zip(op.sizes(x)[2:], padding, full, strict=True)
    ]
    known = not any(is_symbolic(each) for each in missing)
    y = op.ConvTranspose(
        grad,
        weight,
        strides=unless(stride, 1),
        pads=unless((*padding, *padding), 0) if known else None,
        output_padding=unless([int(each) for each in missing], 0) if known else None,
        dilations=unless(dilation, 1),
        group=groups if groups != 1 else None,
    )
    if known:
        return y
    return cropped(op, op.typed(y, [*op.sizes(x)[:2], *full]), padding, op.sizes(x)[2:])


def _input_of_transposed(
    op: Op,
    grad: Value,
    x: Value,
    weight: Value,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    """Conv. An output padding as large as the stride gives it more places than the input had; they are cut off."""
    y = op.Conv(
        grad,
        weight,
        strides=unless(stride, 1),
        pads=unless((*padding, *padding), 0),
        dilations=unless(dilation, 1),
        group=groups if groups != 1 else None,
    )
    return _first(op, y, op.sizes(x)[2:])


def _weight(
    op: Op,
    wide: Value,
    narrow: Value,
    weight: Value,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    """Conv of the wider of input and gradient by the narrower, with the batch as what is summed over.

    In channels of groups: [N, g·C, …] becomes [C, g·N, …] and is convolved by [O, N, …] to [C, O, *kernel].
    """
    axes = len(stride)
    batch, channels, *spatial = op.sizes(wide)
    each = channels // groups
    if groups == 1:
        rows = op.Transpose(wide, perm=[1, 0, *range(2, axes + 2)])
    else:
        split = op.reshape(wide, [batch, groups, each, *spatial])
        turned = op.Transpose(split, perm=[2, 1, 0, *range(3, axes + 3)])
        rows = op.reshape(op.typed(turned, [each, groups, batch, *spatial]), [each, groups * batch, *spatial])
    found = op.Conv(
        rows,
        op.Transpose(narrow, perm=[1, 0, *range(2, axes + 2)]),
        strides=unless(dilation, 1),
        pads=unless((*padding, *padding), 0),
        dilations=unless(stride, 1),
        group=groups if groups != 1 else None,
    )
    return op.Transpose(_first(op, found, op.sizes(weight)[2:]), perm=[1, 0, *range(2, axes + 2)])


def _first(op: Op, x: Value, sizes: Sequence[Size]) -> Value:
    """The first places of the spatial axes: strides that do not divide leave a few more."""
    axes = range(2, 2 + len(sizes))
    return op.Slice(x, [0] * len(sizes), op.shape(sizes), list(axes))
