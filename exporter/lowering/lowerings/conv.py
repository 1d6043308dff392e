"""Convolutions and their transposes, of one to three spatial axes, with or without a batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.symbols import Size, is_symbolic
from fxport.exporter.lowering.lowerings.conv_batch_products import output_by_products, output_is_served, places_of
from fxport.exporter.lowering.lowerings.conv_products import by_products, convolved, transposed
from fxport.exporter.lowering.lowerings.windows import batched, numbers, unbatched, unless

aten = torch.ops.aten


@lowering(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default)
def conv(
    op: Op,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sequence[Size] = (1,),
    padding: Sequence[Size] = (0,),
    dilation: Sequence[Size] = (1,),
    groups: Size = 1,
) -> Value:
    """conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2] dilation=1, SymInt groups=1) -> Tensor"""  # noqa: E501
    axes = op.rank(weight) - 2
    around = numbers(padding, axes, "padding")
    return _conv(op, x, weight, bias, stride, (*around, *around), dilation, groups)


@lowering(aten.conv1d.padding, aten.conv2d.padding, aten.conv3d.padding)
def conv_padding(
    op: Op,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sequence[Size] = (1,),
    padding: str = "valid",
    dilation: Sequence[Size] = (1,),
    groups: Size = 1,
) -> Value:
    """conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, str padding="valid", SymInt[2] dilation=1, SymInt groups=1) -> Tensor

    Where the padding of "same" is odd, PyTorch puts the larger half at the end: ONNX's SAME_UPPER, written as numbers.
    """  # noqa: E501
    axes = op.rank(weight) - 2
    total = [0] * axes
    if padding == "same":
        kernel = numbers(op.sizes(weight)[2:], axes, "kernel size")
        total = [step * (size - 1) for step, size in zip(numbers(dilation, axes, "dilation"), kernel, strict=True)]
    before = [each // 2 for each in total]
    after = [each - half for each, half in zip(total, before, strict=True)]
    return _conv(op, x, weight, bias, stride, (*before, *after), dilation, groups)


@lowering(aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input)
def conv_transpose(
    op: Op,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sequence[Size] = (1,),
    padding: Sequence[Size] = (0,),
    output_padding: Sequence[Size] = (0,),
    groups: Size = 1,
    dilation: Sequence[Size] = (1,),
) -> Value:
    """conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2] output_padding=0, SymInt groups=1, SymInt[2] dilation=1) -> Tensor

    An output padding adds elements at the end. One that depends on a size is the largest that PyTorch takes, and what
    is too much is cut off.
    """  # noqa: E501
    axes = op.rank(weight) - 2
    strides, steps = numbers(stride, axes, "stride"), numbers(dilation, axes, "dilation")
    asked = list(output_padding) * axes if len(output_padding) == 1 else list(output_padding)
    extra = [
        max(step, apart) - 1 if is_symbolic(more) else more
        for more, step, apart in zip(asked, strides, steps, strict=True)
    ]
    before = numbers(padding, axes, "padding")
    y = _transposed(op, x, weight, bias, strides, before, numbers(extra, axes, "output_padding"), groups, steps)
    longer = [axis - axes for axis, more in enumerate(asked) if is_symbolic(more)]
    if not longer:
        return y
    ends = [op.out.sizes[axis] for axis in longer]
    return op.Slice(y, [0] * len(longer), op.shape(ends), [axis % op.out.rank for axis in longer])


def _transposed(
    op: Op,
    x: Value,
    weight: Value,
    bias: Value | None,
    strides: Sequence[int],
    before: Sequence[int],
    output_padding: Sequence[int],
    groups: Size,
    steps: Sequence[int],
) -> Value:
    """ConvTranspose. ONNX Runtime refuses an output padding that is not smaller than the stride.

    It means to crop so much less at the end, and is written so; what the cropping cannot give is zeros, before the
    bias is added.
    """
    axes = len(strides)
    extra, after, missing = list(output_padding), list(before), [0] * axes
    if by_products(x, groups):
        y = transposed(op, batched(op, x, axes), weight, bias, strides, before, extra, steps, groups)
        return unbatched(op, y, x, axes)
    for axis in range(axes):
        if extra[axis] >= strides[axis]:
            missing[axis] = max(extra[axis] - after[axis], 0)
            after[axis] -= extra[axis] - missing[axis]
            extra[axis] = 0
    late_bias = bias if any(missing) else None
    y = op.ConvTranspose(
        batched(op, x, axes),
        weight,
        *([bias] if bias is not None and late_bias is None else []),
        strides=unless(strides, 1),
        pads=unless((*before, *after), 0),
        output_padding=unless(extra, 0),
        dilations=unless(steps, 1),
        group=groups if groups != 1 else None,
    )
    if any(missing):
        y = op.Pad(y, [0] * (axes + 2) + [0, 0, *missing])
    if late_bias is not None:
        y = op.Add(y, op.Unsqueeze(late_bias, [*range(1, axes + 1)]))
    return unbatched(op, y, x, axes)


@lowering(aten.convolution.default)
def convolution(
    op: Op,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[Size],
    padding: Sequence[Size],
    dilation: Sequence[Size],
    transposed: bool,
    output_padding: Sequence[Size],
    groups: Size,
) -> Value:
    """convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"""  # noqa: E501
    if transposed:
        return conv_transpose(op, x, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(op, x, weight, bias, stride, padding, dilation, groups)


def _conv(
    op: Op,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[Size],
    pads: Sequence[int],
    dilation: Sequence[Size],
    groups: Size,
) -> Value:
    """Conv; `pads` are those before each spatial axis, then those after."""
    axes = op.rank(weight) - 2
    steps, apart = numbers(stride, axes, "stride"), numbers(dilation, axes, "dilation")
    many = batched(op, x, axes)
    if by_products(x, groups):
        y = convolved(op, many, weight, bias, steps, pads, apart, groups)
        return unbatched(op, y, x, axes)
    before = pads[:axes]
    places = places_of(op.sizes(many)[2:], op.sizes(weight)[2:], steps, before, apart)
    if before == pads[axes:] and output_is_served(op, many, weight, places, groups):
        y = output_by_products(op, many, weight, places, steps, before, apart)
        y = y if bias is None else op.Add(y, op.Unsqueeze(bias, [*range(1, axes + 1)]))
        return unbatched(op, y, x, axes)
    y = op.Conv(
        many,
        weight,
        *([bias] if bias is not None else []),
        strides=unless(steps, 1),
        pads=unless(pads, 0),
        dilations=unless(apart, 1),
        group=groups if groups != 1 else None,
    )
    return unbatched(op, y, x, axes)
