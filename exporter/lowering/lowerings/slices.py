"""Parts along an axis: slice, select, split, and their inverses that put a part back."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value, Values
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import LAST, axis_of, from_start, sliced
from fxport.exporter.lowering.lowerings.index_put import put
from fxport.fx_passes.sizes import is_symbolic

aten = torch.ops.aten


@lowering(aten.slice.Tensor, aten.slice_copy.Tensor)
def slice_(op: Op, x: Value, dim: int = 0, start: Size | None = None, end: Size | None = None, step: Size = 1) -> Value:
    """slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)

    Equal sizes mean that nothing was cut off.
    """
    if op.out.sizes == op.sizes(x):
        return x
    return sliced(op, x, axis_of(dim, op.rank(x)), 0 if start is None else start, LAST if end is None else end, step)


@lowering(aten.select.int, aten.select_copy.int)
def select(op: Op, x: Value, dim: int, index: Size) -> Value:
    """select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)

    A Gather by one number drops the axis as well.
    """
    return op.Gather(x, index, axis=axis_of(dim, op.rank(x)))


@lowering(aten.narrow.default, aten.narrow_copy.default)
def narrow(op: Op, x: Value, dim: int, start: Size, length: Size) -> Value:
    """narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)"""
    if op.out.sizes == op.sizes(x):
        return x
    axis = axis_of(dim, op.rank(x))
    first = from_start(start, op.sizes(x)[axis])
    return sliced(op, x, axis, first, first + length)


# Several parts ------------------------------------------------------------------------------------------------------


@lowering(
    aten.split.Tensor,
    aten.split.sizes,
    aten.split_copy.Tensor,
    aten.split_with_sizes.default,
    aten.split_with_sizes_copy.default,
    aten.unsafe_split.Tensor,
    aten.unsafe_split_with_sizes.default,
    aten.chunk.default,
    aten.unsafe_chunk.default,
    aten.tensor_split.sections,
)
def split(op: Op, x: Value, split_size: Size | Sequence[Size], dim: int = 0) -> Values:
    """split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]

    The sizes of the results say where to cut, whether the argument is a size, a number of parts or a list of sizes.
    """
    axis = axis_of(dim, op.rank(x))
    sizes = [out.sizes[axis] for out in op.outs]
    if len(sizes) == 1:
        return (x,)
    if all(is_symbolic(size) and size == sizes[0] for size in sizes):
        return op.Split(x, axis=axis, num_outputs=len(sizes), outputs=len(sizes))
    return op.Split(x, op.shape(sizes), axis=axis, outputs=len(sizes))


@lowering(aten.tensor_split.indices)
def tensor_split(op: Op, x: Value, indices: Sequence[Size], dim: int = 0) -> list[Value]:
    """tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]

    The parts may overlap, since each is the slice between two of the indices as they are given.
    """
    axis = axis_of(dim, op.rank(x))
    bounds = zip([0, *indices], [*indices, LAST], strict=True)
    return [sliced(op, x, axis, start, end) for start, end in bounds]


@lowering(aten.unbind.int, aten.unbind_copy.int)
def unbind(op: Op, x: Value, dim: int = 0) -> list[Value]:
    """unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]

    As Gathers rather than Split and Squeeze: what nobody uses is then not computed.
    """
    axis = axis_of(dim, op.rank(x))
    return [op.Gather(x, index, axis=axis) for index in range(len(op.outs))]


# Back into the whole --------------------------------------------------------------------------------------------------


@lowering(aten.slice_scatter.default)
def slice_scatter(
    op: Op, x: Value, src: Value, dim: int = 0, start: Size | None = None, end: Size | None = None, step: Size = 1
) -> Value:
    """slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor

    What is before, the new part, and what is behind. With a step, a scatter.
    """
    axis = axis_of(dim, op.rank(x))
    length = op.sizes(src)[axis]
    if length == 0:
        return x
    first = from_start(0 if start is None else start, op.sizes(x)[axis])
    part = op.cast(src, op.out.dtype)
    if step == 1:
        return spliced(op, x, part, axis, first)
    return put(op, x, {axis: op.typed(op.Range(first, first + length * step, step), [length])}, part)


@lowering(aten.select_scatter.default)
def select_scatter(op: Op, x: Value, src: Value, dim: int, index: Size) -> Value:
    """select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"""
    axis = axis_of(dim, op.rank(x))
    part = op.cast(op.Unsqueeze(src, [axis]), op.out.dtype)
    sizes = [1 if i == axis else each for i, each in enumerate(op.sizes(x))]
    return spliced(op, x, op.typed(part, sizes), axis, from_start(index, op.sizes(x)[axis]))


def spliced(op: Op, x: Value, part: Value, axis: int, first: Size) -> Value:
    """`x` with `part` in the place of as many elements along an axis, from `first` (at least 0) on."""
    size, length = op.sizes(x)[axis], op.sizes(part)[axis]
    if first == 0 and length == size:
        return part
    pieces = [part]
    if first != 0:
        pieces.insert(0, sliced(op, x, axis, 0, first))
    if first + length != size:
        pieces.append(sliced(op, x, axis, first + length))
    return op.Concat(*pieces, axis=axis)
