"""Pools to a given size: window i of n along an axis of size s reaches from ⌊i·s/n⌋ to ⌈(i+1)·s/n⌉."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.dtypes import HALVES
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.symbols import Size, is_symbolic
from fxport.exporter.lowering.lowerings.axes import product
from fxport.exporter.lowering.lowerings.pool import with_indices
from fxport.exporter.lowering.lowerings.windows import batched, divided, unbatched, windows

aten = torch.ops.aten

FLOAT, DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE


@lowering(
    aten.adaptive_avg_pool1d.default,
    aten.adaptive_avg_pool2d.default,
    aten.adaptive_avg_pool3d.default,
    aten._adaptive_avg_pool2d.default,
    aten._adaptive_avg_pool3d.default,
)
def adaptive_avg_pool(op: Op, x: Value, output_size: Sequence[Size]) -> Value:
    """adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor

    To one value an axis it is a mean, to a divisor of the size an AveragePool. At any other size windows are written
    out axis by axis: infinities and NaN are in the windows that have them, and in no others.
    """
    axes = len(output_size)
    sizes = op.sizes(x)[-axes:]
    means = [axis - axes for axis in range(axes) if output_size[axis] == 1 and sizes[axis] != 1]
    if len(means) == axes < op.rank(x) and x.dtype != DOUBLE:  # ONNX Runtime has no GlobalAveragePool of it
        return unbatched(op, op.GlobalAveragePool(batched(op, x, axes)), x, axes)
    y = op.ReduceMean(x, [op.rank(x) + axis for axis in means]) if means else x
    rest = [axis for axis in range(axes) if axis - axes not in means and output_size[axis] != sizes[axis]]
    kernel = [1 if axis not in rest else _quotient(sizes[axis], output_size[axis]) for axis in range(axes)]
    if all(kernel) and rest and x.dtype != DOUBLE:  # nor AveragePool
        y = op.AveragePool(batched(op, op.typed(y, op.sizes(x)), axes), kernel_shape=kernel, strides=kernel)
        return unbatched(op, y, x, axes)
    now = [1 if axis - axes in means else size for axis, size in enumerate(sizes)]
    y = op.typed(y if y.dtype not in HALVES or not rest else op.cast(y, FLOAT), [*op.sizes(x)[:-axes], *now])
    for axis in rest:
        y = _averages(op, y, axis - axes, output_size[axis])
    return op.cast(y, op.out.dtype)


def _quotient(size: Size, by: Size) -> int:
    """`size / by` where both are constant and there is no rest, else 0."""
    if is_symbolic(size) or is_symbolic(by) or by == 0 or size % by:
        return 0
    return int(size // by)


def _bounds(op: Op, size: Size, count: Size) -> tuple[Value, Value]:
    """Compute the begin and end of each window along an axis: two columns, INT64 [count, 1]."""
    index = op.Unsqueeze(op.Range(0, op.const(count), 1), [1])
    begin = op.Div(op.Mul(index, op.const(size)), op.const(count))
    end = op.Div(op.Add(op.Mul(op.Add(index, 1), op.const(size)), op.const(count - 1)), op.const(count))
    return begin, end


def _averages(op: Op, x: Value, position: int, count: Size) -> Value:
    """`x` with the averages of `count` windows along an axis counted from the end."""
    sizes = [*op.sizes(x)]
    size = sizes[position]
    begin, end = _bounds(op, size, count)
    places = op.Add(begin, op.Range(0, op.const(_longest(size, count)), 1))
    across = [*range(1, -position)]
    rows = op.Gather(x, op.Min(places, op.const(size - 1)), axis=position % len(sizes))
    inside = op.Less(places, end)
    inside = op.Unsqueeze(inside, [each + 1 for each in across]) if across else inside
    kept = op.Where(inside, rows, op.const(0.0, like=x))
    sizes[position] = count
    total = op.ReduceSum(kept, [position % len(sizes) + 1], keepdims=0)
    length = op.Reshape(op.Sub(end, begin), op.shape([count, *[1] * len(across)]))
    return op.typed(op.Div(total, op.const(length, like=x)), sizes)


@lowering(aten.adaptive_max_pool1d.default, aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def adaptive_max_pool(op: Op, x: Value, output_size: Sequence[int]) -> tuple[Value, Value]:
    """adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)

    MaxPool where the sizes divide, else the windows written out: a maximum does not mind that the last element of a
    shorter window is there several times, nor does ArgMax, which takes the first of equals as PyTorch does.
    """
    axes = len(output_size)
    sizes = op.sizes(x)[-axes:]
    kernel = [_quotient(size, count) for size, count in zip(sizes, output_size, strict=True)]
    if all(kernel):
        return with_indices(op, x, kernel, (), (0,), (1,), False)
    tables: list[Value] = []
    lengths: list[Size] = []
    for size, count in zip(sizes, output_size, strict=True):
        begin, end = _bounds(op, size, count)
        lengths.append(_longest(size, count))
        tables.append(op.Min(op.Add(begin, op.Range(0, op.const(lengths[-1]), 1)), op.Sub(end, 1)))
    lead = op.out.sizes[: op.rank(x) - axes]
    written = op.typed(windows(op, x, tables), [*lead, *output_size, *lengths])
    flat = op.reshape(written, [*lead, *output_size, product(lengths)])
    last = op.rank(x)  # from the front: from the back ONNX Runtime takes no notice of it where there are no elements
    tap = op.ArgMax(flat, axis=last, keepdims=0)
    return op.ReduceMax(flat, [last], keepdims=0), _places(op, tap, tables, lengths, sizes)


def _longest(size: Size, count: Size) -> Size:
    """The length of the longest window, or one more."""
    if is_symbolic(size) or is_symbolic(count):
        return divided(size + count - 1, count) + 1
    whole, parts = int(size), int(count)
    return max((-(-(i + 1) * whole // parts) - i * whole // parts for i in range(parts)), default=1)


def _places(op: Op, tap: Value, tables: Sequence[Value], lengths: Sequence[Size], sizes: Sequence[Size]) -> Value:
    """The place in the flattened plane that the given tap of each window looks at."""
    axes = len(tables)
    place = op.const(0)
    for axis in range(axes):
        along = tap if axis == 0 else op.Mod(tap, op.const(product(lengths[axis:])))
        along = along if axis == axes - 1 else op.Div(along, op.const(product(lengths[axis + 1 :])))
        first = op.Gather(tables[axis], 0, axis=1)
        last = op.Gather(tables[axis], -1, axis=1)
        after = [*range(1, axes - axis)]
        first, last = (op.Unsqueeze(each, after) if after else each for each in (first, last))
        at = op.Min(op.Add(first, along), last)
        place = at if axis == 0 else op.Add(op.Mul(place, op.const(sizes[axis])), at)
    return place
