"""Pools: maxima, their places, and averages over windows of a fixed size.

Where a window holds a NaN, PyTorch's maximum is NaN, and ONNX Runtime's may be the largest number.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.dtypes import INTEGERS, is_float
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.symbols import Size, is_symbolic
from fxport.exporter.lowering.lowerings.axes import product
from fxport.exporter.lowering.lowerings.windows import (
    batched,
    number_of_windows,
    numbers,
    spatial_axes,
    taps,
    unbatched,
    unless,
    windows,
)

aten = torch.ops.aten

FLOAT, DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE
UNPOOLED = INTEGERS - {ir.DataType.INT8, ir.DataType.UINT8}
"""Dtypes that PyTorch pools and ONNX does not."""

BOUNDED_BELOW = frozenset(
    {
        "Abs", "Celu", "Elu", "Exp", "Gelu", "HardSigmoid", "HardSwish", "Mish", "Relu", "Selu", "Sigmoid", "Softmax",
        "Softplus", "Swish", "Tanh",
    }
)  # fmt: skip
"""Operators whose results are above -inf."""


def maxima(
    op: Op,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    outputs: int = 1,
) -> tuple[Value, ...]:
    """MaxPool, and with `outputs=2` ONNX's indices: places in the whole flattened tensor.

    Where a window holds a NaN, PyTorch gives NaN and ONNX Runtime the largest number. Integers that ONNX's MaxPool does
    not take are pooled as DOUBLE, which is exact up to 2**53. Where nobody reads the indices, its pool of FLOAT
    begins with the lowest number, and gives that for a window of infinities: of halves, it doubles to -inf. Indices
    are those of a pool of their own: of the smallest numbers, halves are equal.
    """
    if x.dtype != FLOAT or _is_bounded_below(x):
        return _pooled(op, x, kernel, stride, padding, dilation, ceil_mode, outputs)
    halves = op.typed(op.Mul(x, 0.5), op.sizes(x))
    (y,) = _pooled(op, halves, kernel, stride, padding, dilation, ceil_mode, 1)
    places = _pooled(op, x, kernel, stride, padding, dilation, ceil_mode, 2)[1:] if outputs == 2 else ()
    return (op.Mul(y, 2.0), *places)


def _is_bounded_below(x: Value) -> bool:
    """Return whether a value is known not to be -inf by the node that makes it."""
    node = x.producer()
    return node is not None and node.op_type in BOUNDED_BELOW


def _pooled(
    op: Op,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    outputs: int,
) -> tuple[Value, ...]:
    """MaxPool as ONNX Runtime has it."""
    axes = len(kernel)
    steps = numbers(stride, axes, "stride") if stride else kernel
    before, spread = numbers(padding, axes, "padding"), numbers(dilation, axes, "dilation")
    extents = [gap * (size - 1) + 1 for gap, size in zip(spread, kernel, strict=True)]
    after = _end_padding(op, x, extents, steps, before) if ceil_mode else before
    if after is not None and any(end >= size for end, size in zip(after, kernel, strict=True)):
        after = None  # more than ONNX Runtime pads
    y, *places = op.MaxPool(
        batched(op, op.cast(x, DOUBLE) if x.dtype in UNPOOLED else x, axes),
        kernel_shape=list(kernel),
        strides=unless(steps, 1),
        pads=unless((*before, *(after or before)), 0),
        dilations=unless(spread, 1),
        ceil_mode=1 if after is None else None,
        outputs=outputs,
    )
    return tuple(unbatched(op, result, x, axes) for result in (op.cast(y, op.out.dtype), *places))


def _end_padding(
    op: Op, x: Value, extents: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> Sequence[int] | None:
    """The padding behind each axis with which sizes rounded down are what PyTorch has rounded up.

    PyTorch leaves out a last window that would begin in the padding. ONNX says so from opset 22 on; below, its
    `ceil_mode` would give a larger size. None where sizes are symbolic.
    """
    known = op.sizes(x)[-len(extents) :]
    if any(is_symbolic(size) for size in known):
        return None
    counts = [
        number_of_windows(size, extent, step, before, True)
        for size, extent, step, before in zip(known, extents, stride, padding, strict=True)
    ]
    reach = [(count - 1) * step + extent for count, step, extent in zip(counts, stride, extents, strict=True)]
    return [max(int(end - before - size), before) for end, before, size in zip(reach, padding, known, strict=True)]


@lowering(aten.max_pool1d.default, aten.max_pool2d.default, aten.max_pool3d.default)
def max_pool(
    op: Op,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Value:
    """max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor"""  # noqa: E501
    kernel = numbers(kernel_size, spatial_axes(op), "kernel size")
    return maxima(op, x, kernel, stride, padding, dilation, ceil_mode)[0]


@lowering(
    aten.max_pool1d_with_indices.default,
    aten.max_pool2d_with_indices.default,
    aten.max_pool3d_with_indices.default,
)
def max_pool_with_indices(
    op: Op,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Value, Value]:
    """max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"""  # noqa: E501
    kernel = numbers(kernel_size, spatial_axes(op), "kernel size")
    return with_indices(op, x, kernel, stride, padding, dilation, ceil_mode)


def with_indices(
    op: Op,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[Value, Value]:
    """The maxima and their places in the flattened plane (line, volume) of each channel, as PyTorch counts them."""
    y, places = maxima(op, x, kernel, stride, padding, dilation, ceil_mode, outputs=2)
    return y, op.Mod(places, product(op.sizes(x)[-len(kernel) :]))


@lowering(aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default)
def avg_pool(
    op: Op,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Value:
    """avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor

    AveragePool. What PyTorch counts as padding is written out where ONNX would count differently.
    """  # noqa: E501
    axes = spatial_axes(op)
    kernel = numbers(kernel_size, axes, "kernel size")
    steps = numbers(stride, axes, "stride") if stride else kernel
    before = numbers(padding, axes, "padding")
    if not is_float(x.dtype) or x.dtype == ir.DataType.DOUBLE:  # AveragePool knows no integers, its kernel no float64
        return _averages_of_windows(op, x, kernel, steps, before, ceil_mode, count_include_pad, divisor)
    if divisor is not None and ceil_mode:  # windows that reach out further count whole, too
        x, before, ceil_mode = _padded(op, x, kernel, steps, before, ceil_mode), [0] * axes, False
    after = _end_padding(op, x, kernel, steps, before) if ceil_mode else before
    counted = any(before) and (count_include_pad or divisor is not None)
    if counted and after is not None and tuple(after) != tuple(before):
        x, counted = _surrounded(op, x, before, before), False
        before, after = [0] * axes, [end - begin for end, begin in zip(after, before, strict=True)]
    y = op.AveragePool(
        batched(op, x, axes),
        kernel_shape=list(kernel),
        strides=unless(steps, 1),
        pads=unless((*before, *(after or before)), 0),
        ceil_mode=1 if after is None else None,
        count_include_pad=1 if counted else None,
    )
    y = unbatched(op, y, x, axes)
    return y if divisor is None else op.Mul(y, prod(kernel) / divisor)


def _surrounded(op: Op, x: Value, before: Sequence[Size], after: Sequence[Size]) -> Value:
    """`x` with so many zeros before and after each of its last axes; negative numbers cut."""
    lead, sizes = op.sizes(x)[: -len(before)], op.sizes(x)[-len(before) :]
    padded = op.Pad(x, op.shape([*[0] * len(lead), *before, *[0] * len(lead), *after]))
    grown = [begin + size + end for begin, size, end in zip(before, sizes, after, strict=True)]
    return op.typed(padded, [*lead, *grown])


def _padded(
    op: Op, x: Value, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil_mode: bool
) -> Value:
    """`x` with zeros around it, up to the end of the last window of each axis."""
    after: list[Size] = []
    for size, extent, step, before in zip(op.sizes(x)[-len(kernel) :], kernel, stride, padding, strict=True):
        count = number_of_windows(size, extent, step, before, ceil_mode)
        after.append((count - 1) * step + extent - before - size)
    return _surrounded(op, x, padding, after)


def _averages_of_windows(
    op: Op,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Value:
    """Sums over windows, divided by the number of elements in each; of integers truncated, as PyTorch does it."""
    axes = len(kernel)
    sizes = op.sizes(x)[-axes:]
    tables = [
        taps(op, number_of_windows(size, extent, step, before, ceil_mode), step, extent)
        for size, extent, step, before in zip(sizes, kernel, stride, padding, strict=True)
    ]
    padded = _padded(op, x, kernel, stride, padding, ceil_mode)
    total = op.ReduceSum(windows(op, padded, tables), [*range(-axes, 0)], keepdims=0)
    if divisor is not None:
        return op.Div(total, divisor)
    return op.Div(total, window_counts(op, x, sizes, kernel, stride, padding, ceil_mode, count_include_pad))


def window_counts(
    op: Op,
    like: Value,
    sizes: Sequence[Size],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
) -> Value:
    """Compute the number of elements that each window averages, in the dtype of `like`, broadcastable to the
    windows.
    """
    axes = len(kernel)
    count = op.const(1, like=like)
    for axis, (size, extent, step, before) in enumerate(zip(sizes, kernel, stride, padding, strict=True)):
        table = taps(op, number_of_windows(size, extent, step, before, ceil_mode), step, extent)
        low, high = (0, size + 2 * before) if count_include_pad else (before, size + before)
        inside = op.And(op.GreaterOrEqual(table, low), op.Less(table, op.const(high, like=table)))
        along = op.ReduceSum(op.const(inside, like=like), [1], keepdims=0)
        after = [*range(1, axes - axis)]
        count = op.Mul(count, op.Unsqueeze(along, after) if after else along)
    return count
