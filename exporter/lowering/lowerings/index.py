"""Reading by indices: `x[...]`, index_select, gather, take."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import axis_of, flat, product
from fxport.exporter.lowering.lowerings.indices import INT64, Indexed, broadcast, indexed, only_mask, stacked
from fxport.exporter.lowering.lowerings.shape import expanded, spread, transposed

aten = torch.ops.aten


@lowering(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(op: Op, x: Value, indices: Sequence[Value | None]) -> Value:
    """index.Tensor(Tensor self, Tensor?[] indices) -> Tensor

    The least that says it: Compress for one mask, Gather for one index, a Gather each where every index runs along
    axes of its own, GatherND for indices of the first axes, one Gather of merged axes for adjacent others.
    """
    mask = only_mask(indices)
    if mask is not None:
        return compressed(op, x, *mask)
    what = indexed(op, x, indices)
    if not what.by_axis:
        return x
    if len(what.by_axis) == 1:
        ((axis, only),) = what.by_axis.items()
        return op.Gather(what.x, only, axis=axis)
    if what.adjacent and _runs_apart(op, what):
        return _one_by_one(op, what)
    if what.adjacent and what.axes[0] > 0:
        return _by_merged_axes(op, what)
    first = [*what.axes, *(axis for axis in range(op.rank(what.x)) if axis not in what.by_axis)]
    places = stacked(op, [what.by_axis[axis] for axis in what.axes], what.sizes)
    return op.GatherND(transposed(op, what.x, first), places)


def compressed(op: Op, x: Value, axis: int, mask: Value) -> Value:
    """The elements along the axes of a mask, from `axis` on, where it is true."""
    sizes, rank = op.sizes(x), op.rank(mask)
    chosen = op.cast(flat(op, mask), ir.DataType.BOOL)
    if rank == len(sizes) and rank > 0:
        return op.Compress(x, chosen)
    if rank != 1:
        x = op.reshape(x, [*sizes[:axis], product(sizes[axis : axis + rank]), *sizes[axis + rank :]])
    return op.Compress(x, chosen, axis=axis)


def _runs_apart(op: Op, what: Indexed) -> bool:
    """Return True if each index varies along axes of the result that are its own, in the order of the indices.

    So do the two of `x[:, :, rows[:, None], columns]`.
    """
    rank = len(what.sizes)
    runs = [_running(op, index, rank) for _, index in sorted(what.by_axis.items())]
    along = [axis for run in runs for axis in run]
    return along == sorted(set(along))


def _running(op: Op, index: Value, rank: int) -> list[int]:
    sizes = op.sizes(index)
    return [axis + rank - len(sizes) for axis, size in enumerate(sizes) if size != 1]


def _one_by_one(op: Op, what: Indexed) -> Value:
    y, axis = what.x, what.axes[0]
    for _, index in sorted(what.by_axis.items()):
        sizes = [size for size in op.sizes(index) if size != 1]
        line = index if len(sizes) == op.rank(index) else op.reshape(index, sizes)
        y = op.Gather(y, line, axis=axis)
        axis += len(sizes)
    shape = op.sizes(what.x)
    kept = [size for size in what.sizes if size != 1]
    first, last = what.axes[0], what.axes[-1]
    if len(kept) == len(what.sizes):
        return y
    y = op.typed(y, [*shape[:first], *kept, *shape[last + 1 :]])
    return op.reshape(y, [*shape[:first], *what.sizes, *shape[last + 1 :]])  # not out.sizes: a mask's count is ours


def _by_merged_axes(op: Op, what: Indexed) -> Value:
    """Adjacent axes as one, indexed by the place in it: a Gather instead of two Transposes around a GatherND."""
    sizes = op.sizes(what.x)
    first, last = what.axes[0], what.axes[-1]
    place: Value | None = None
    for axis in what.axes:
        along = non_negative(op, op.cast(what.by_axis[axis], INT64), sizes[axis])
        place = along if place is None else op.Add(op.Mul(place, op.const(sizes[axis])), along)
    merged = op.reshape(what.x, [*sizes[:first], product(sizes[first : last + 1]), *sizes[last + 1 :]])
    return op.Gather(merged, place, axis=first)


def non_negative(op: Op, index: Value, size: Size) -> Value:
    """INT64 indices into an axis with those counted from its end counted from its start."""
    return op.Where(op.Less(index, 0), op.Add(index, op.const(size)), index)


@lowering(aten.index_select.default)
def index_select(op: Op, x: Value, dim: int, index: Value) -> Value:
    """index_select(Tensor self, int dim, Tensor index) -> Tensor"""
    if op.rank(x) == 0:
        return x
    return op.Gather(x, as_vector(op, index), axis=axis_of(dim, op.rank(x)))


def as_vector(op: Op, index: Value) -> Value:
    """An index of rank 0 as one of rank 1, which PyTorch takes it for."""
    return op.reshape(index, [1]) if op.rank(index) == 0 else index


@lowering(aten.gather.default)
def gather(op: Op, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    """gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"""
    if product(op.sizes(index)) == 0:  # its rank need not be that of `x`
        return spread(op, 0, op.out.dtype, op.out.sizes)
    return gathered(op, x, axis_of(dim, op.rank(x)), index)


def gathered(op: Op, x: Value, axis: int, index: Value) -> Value:
    """GatherElements, with 0-d tensors as vectors."""
    if op.out.rank == 0:
        return op.reshape(op.GatherElements(as_vector(op, x), as_vector(op, index), axis=0), [])
    return op.GatherElements(as_vector(op, x), index, axis=axis)


@lowering(aten.take_along_dim.default)
def take_along_dim(op: Op, x: Value, indices: Value, dim: int | None = None) -> Value:
    """take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor

    A gather whose other axes broadcast; without a dim, one of the elements in their order.
    """
    if dim is None:
        return op.Gather(flat(op, x), flat(op, indices), axis=0)
    axis = axis_of(dim, op.rank(x))
    sizes = broadcast([_with(op.sizes(x), axis, 1), _with(op.sizes(indices), axis, 1)])
    x = expanded(op, x, _with(sizes, axis, op.sizes(x)[axis]))
    return gathered(op, x, axis, expanded(op, indices, op.out.sizes))


def _with(sizes: Sequence[Size], axis: int, size: Size) -> list[Size]:
    return [*sizes[:axis], size, *sizes[axis + 1 :]]


@lowering(aten.take.default)
def take(op: Op, x: Value, index: Value) -> Value:
    """take(Tensor self, Tensor index) -> Tensor"""
    return op.Gather(flat(op, x), index, axis=0)
