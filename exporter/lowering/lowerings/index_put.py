"""Writing by indices: `x[...] = values` and `x[...] += values`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import flat, product
from fxport.exporter.lowering.lowerings.comparison import choose
from fxport.exporter.lowering.lowerings.indices import Indexed, arange, at_axis, broadcast, indexed, only_mask, stacked
from fxport.exporter.lowering.lowerings.shape import expanded

aten = torch.ops.aten
BOOL = ir.DataType.BOOL

WIDER: Mapping[ir.DataType | None, ir.DataType] = {
    ir.DataType.FLOAT16: ir.DataType.FLOAT,
    ir.DataType.BFLOAT16: ir.DataType.FLOAT,
    ir.DataType.BOOL: ir.DataType.INT32,
}
"""In what a scatter reduces the dtypes whose sums and extremes ONNX Runtime's kernels refuse when they run."""


@lowering(aten.index_put.default, aten._unsafe_index_put.default, aten._index_put_impl.default)
def index_put(
    op: Op, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False, unsafe: bool = False
) -> Value:
    """index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor

    A choice element by element where a mask is set to a value that is the same for all it lets through; else a scatter.
    """
    if product(op.sizes(x)) == 0:
        return x
    values = op.cast(values, op.out.dtype)
    mask = only_mask(indices)
    if mask is not None and _same_everywhere(op, x, mask, values):
        return _where(op, x, *mask, values, accumulate)
    what = indexed(op, x, indices)
    if not what.by_axis:
        whole = expanded(op, values, op.out.sizes)
        return _sum(op, x, whole) if accumulate else whole
    written = scattered(op, what, values, accumulate)
    return written if what.x is x else op.reshape(written, op.out.sizes)


def put(op: Op, x: Value, by_axis: Mapping[int, Value], values: Value, accumulate: bool = False) -> Value:
    """`x` with values at integer indices of some axes, laid out as `x[...]` would give them, or broadcast to that."""
    sizes = broadcast([op.sizes(index) for index in by_axis.values()])
    return scattered(op, Indexed(x, dict(by_axis), sizes), values, accumulate)


@lowering(aten.put.default)
def put_(op: Op, x: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    """put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor

    Over the elements in their order.
    """
    if product(op.sizes(index)) == 0:
        return x
    line = flat(op, x)
    written = put(op, line, {0: flat(op, index)}, flat(op, op.cast(source, op.out.dtype)), accumulate)
    return op.reshape(op.typed(written, op.sizes(line)), op.sizes(x))


# Masks --------------------------------------------------------------------------------------------------------------


def _same_everywhere(op: Op, x: Value, mask: tuple[int, Value], values: Value) -> bool:
    """Return True if the axis of `values` for the elements that the mask selects is missing or of size 1."""
    behind = op.rank(x) - mask[0] - op.rank(mask[1])
    sizes = op.sizes(values)
    return len(sizes) <= behind or sizes[len(sizes) - behind - 1] == 1


def _where(op: Op, x: Value, axis: int, mask: Value, values: Value, accumulate: bool) -> Value:
    """Build a Where, with the values' axis for the mask expanded to as many axes as the mask has."""
    rank = op.rank(mask)
    behind = op.rank(x) - axis - rank
    sizes = op.sizes(values)
    if len(sizes) > behind:
        at = len(sizes) - behind - 1
        wide = [*sizes[:at], *[1] * rank, *sizes[at + 1 :]]
        values = values if len(wide) == len(sizes) else op.reshape(values, wide)
    condition = op.cast(at_axis(op, mask, 0, rank + behind), BOOL)
    return choose(op, condition, _sum(op, x, values) if accumulate else values, x)


def _sum(op: Op, x: Value, values: Value) -> Value:
    """A sum; of truth values, whether one of them is true."""
    return op.Or(x, values) if x.dtype == BOOL else op.Add(x, values)


# Integers -----------------------------------------------------------------------------------------------------------


def scattered(op: Op, what: Indexed, values: Value, accumulate: bool) -> Value:
    """ScatterND over the axes up to the last indexed one, those in between indexed whole.

    So nothing is transposed: not the values, and not `x`, which may be a large cache.
    """
    x, sizes, last = what.x, op.sizes(what.x), what.axes[-1]
    whole = [axis for axis in range(last) if axis not in what.by_axis]
    order = _order(what, whole)
    lead = [size for part in order for size in (what.sizes if part is None else (sizes[part],))]
    values = expanded(op, values, [*lead, *sizes[last + 1 :]])
    if what.axes == [op.rank(x) - 1] and len(what.sizes) == 1 and last > 0:
        places = expanded(op, what.by_axis[last], lead)
        return _scatter(op, "ScatterElements", x, places, values, accumulate, axis=last)
    starts = _starts(what, order)
    components = [
        at_axis(op, arange(op, sizes[axis]), starts[axis], len(lead))
        if axis in whole
        else at_axis(op, what.by_axis[axis], starts[None] + len(what.sizes) - op.rank(what.by_axis[axis]), len(lead))
        for axis in range(last + 1)
    ]
    return _scatter(op, "ScatterND", x, stacked(op, components, lead), values, accumulate)


def _order(what: Indexed, whole: Sequence[int]) -> list[int | None]:
    """The leading axes of the values: those kept whole by their numbers, and None for the axes of the indices."""
    before = [axis for axis in whole if axis < what.axes[0]]
    return [*before, None] if what.adjacent else [None, *whole]


def _starts(what: Indexed, order: Sequence[int | None]) -> dict[int | None, int]:
    starts: dict[int | None, int] = {}
    at = 0
    for part in order:
        starts[part] = at
        at += len(what.sizes) if part is None else 1
    return starts


def _scatter(op: Op, op_type: str, x: Value, places: Value, values: Value, accumulate: bool, **options: int) -> Value:
    """The scatter itself; what ONNX Runtime cannot add is added in a wider dtype."""
    write = getattr(op, op_type)
    if not accumulate:
        return write(x, places, values, **options)
    if x.dtype in WIDER:
        wide = WIDER[x.dtype]
        total = write(op.cast(x, wide), places, op.cast(values, wide), reduction="add", **options)
        return op.cast(total, op.out.dtype)
    return write(x, places, values, reduction="add", **options)
