"""Views by strides: windows, diagonals, and what as_strided sees of the elements in their order."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import axis_of, flat, moved, product, sliced
from fxport.exporter.lowering.lowerings.index_put import put
from fxport.exporter.lowering.lowerings.indices import arange, at_axis
from fxport.exporter.lowering.lowerings.shape import transposed

aten, prims = torch.ops.aten, torch.ops.prims


@lowering(aten.unfold.default, aten.unfold_copy.default)
def unfold(op: Op, x: Value, dimension: int, size: int, step: int) -> Value:
    """unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)

    Windows along an axis, their elements along a new last one. Windows that touch are a reshape; others are gathered.
    """
    if op.rank(x) == 0:
        return op.reshape(x, op.out.sizes) if size == 1 else sliced(op, op.reshape(x, [1]), 0, 0, size)
    rank = op.rank(x)
    axis = axis_of(dimension, rank)
    sizes, count = op.sizes(x), op.out.sizes[axis]
    apart = [*sizes[:axis], count, size, *sizes[axis + 1 :]]
    if size == step:
        whole = x if count * size == sizes[axis] else sliced(op, x, axis, 0, count * size)
        windows = op.reshape(whole, apart)
    else:
        places = strided_places(op, [count, size], [step, 1], 0)
        # One row of places: ONNX Runtime 1.31 moves transposes through a Gather of several rows, and gets them wrong.
        row = op.reshape(places, [count * size])
        taken = op.typed(op.Gather(x, row, axis=axis), [*sizes[:axis], count * size, *sizes[axis + 1 :]])
        windows = op.reshape(taken, apart)
    return transposed(op, windows, moved(rank + 1, {rank: axis + 1}))


# Diagonals ----------------------------------------------------------------------------------------------------------


@lowering(aten.diagonal.default, aten.diagonal_copy.default)
def diagonal(op: Op, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)

    With both axes merged into a last one, the elements stand one row and one element apart.
    """
    merged, columns, _ = _merged(op, x, dim1, dim2)
    first, step = _first(offset, columns), columns + 1
    return sliced(op, merged, op.rank(merged) - 1, first, first + op.out.sizes[-1] * step, step)


@lowering(aten.diagonal_scatter.default)
def diagonal_scatter(op: Op, x: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"""
    count = op.sizes(src)[-1]
    if count == 0:
        return x
    merged, columns, order = _merged(op, x, dim1, dim2)
    last = op.rank(merged) - 1
    places = strided_places(op, [count], [columns + 1], _first(offset, columns))
    written = put(op, merged, {last: places}, op.cast(src, op.out.dtype))
    whole = op.reshape(op.typed(written, op.sizes(merged)), [op.sizes(x)[axis] for axis in order])
    return transposed(op, whole, [order.index(axis) for axis in range(len(order))])


def _merged(op: Op, x: Value, dim1: int, dim2: int) -> tuple[Value, Size, list[int]]:
    """`x` with two axes as one last axis; the size of the second of them; the order of axes before they were merged."""
    rank, sizes = op.rank(x), op.sizes(x)
    rows, columns = axis_of(dim1, rank), axis_of(dim2, rank)
    rest = [axis for axis in range(rank) if axis not in (rows, columns)]
    order = [*rest, rows, columns]
    merged = op.reshape(transposed(op, x, order), [*(sizes[axis] for axis in rest), sizes[rows] * sizes[columns]])
    return merged, sizes[columns], order


def _first(offset: int, columns: Size) -> Size:
    return offset if offset >= 0 else -offset * columns


# Strides ------------------------------------------------------------------------------------------------------------


@lowering(aten.as_strided.default, aten.as_strided_copy.default)
def as_strided(
    op: Op, x: Value, size: Sequence[Size], stride: Sequence[Size], storage_offset: Size | None = None
) -> Value:
    """as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)

    The storage is the elements of `x` in their order. Elements side by side are a slice of them; others are gathered.
    """
    offset = storage_offset or 0
    if _is_contiguous(size, stride):
        count = product(size)
        whole = op.sizes(x) and offset == 0 and count == product(op.sizes(x))
        part = flat(op, x) if whole else sliced(op, flat(op, x), 0, offset, offset + count)
        return op.reshape(op.typed(part, [count]), size)
    return op.Gather(flat(op, x), strided_places(op, size, stride, offset), axis=0)


@lowering(aten.as_strided_scatter.default, prims.as_strided_scatter.default)
def as_strided_scatter(
    op: Op, x: Value, src: Value, size: Sequence[Size], stride: Sequence[Size], storage_offset: Size | None = None
) -> Value:
    """as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor"""  # noqa: E501  # the schema is one line
    if product(size) == 0:
        return x
    places = strided_places(op, size, stride, storage_offset or 0)
    written = put(op, flat(op, x), {0: flat(op, places)}, flat(op, op.cast(src, op.out.dtype)))
    return op.reshape(op.typed(written, [product(op.sizes(x))]), op.sizes(x))


def strided_places(op: Op, sizes: Sequence[Size], strides: Sequence[Size], offset: Size) -> Value:
    """offset + the sum of index · stride over the axes, as an INT64 tensor of these sizes."""
    places: Value | None = None
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        steps = arange(op, size)
        steps = steps if stride == 1 else op.typed(op.Mul(steps, op.const(stride)), [size])
        steps = at_axis(op, steps, axis, len(sizes))
        places = steps if places is None else op.Add(places, steps)
    if places is None:
        return op.const(offset)
    return op.typed(places if offset == 0 else op.Add(places, op.const(offset)), sizes)


def _is_contiguous(sizes: Sequence[Size], strides: Sequence[Size]) -> bool:
    """Return True if each stride is the number of elements behind its axis; that of an axis of size 1 does not
    matter.
    """
    expected: Size = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected = expected * size
    return True


@lowering(aten.resize.default)
def resize(op: Op, x: Value, size: Sequence[Size]) -> Value:
    """resize(Tensor self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor

    The first elements in their order; what is new is 0, which PyTorch leaves open.
    """
    count, given = product(size), product(op.sizes(x))
    if count == given:
        return op.reshape(x, size)
    longer = flat(op, x)
    if not isinstance(count, int) or not isinstance(given, int) or count > given:
        zeros = op.Expand(op.const(0, dtype=op.out.dtype), op.shape([count]))
        longer = op.Concat(longer, zeros, axis=0)
    return op.reshape(op.typed(sliced(op, longer, 0, 0, count), [count]), size)
