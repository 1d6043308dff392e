"""The same elements under other sizes or in another order of axes: reshape, squeeze, permute, expand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value, Values
from fxport.exporter.lowering.lower.dtypes import INTEGERS
from fxport.exporter.lowering.lower.registry import Unsupported, lowering
from fxport.exporter.lowering.lowerings.axes import axis_of, moved, sliced

aten, prims = torch.ops.aten, torch.ops.prims

BITCAST_SINCE = 26
"""The opset that brought BitCast."""


@lowering(
    aten.view.default,
    aten.view_copy.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten._reshape_alias.default,
    aten._reshape_copy.default,
    prims.reshape.default,
)
def reshape(op: Op, x: Value, shape: Sequence[Size], *_: Any) -> Value:
    """reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)

    The sizes as they are asked for, which may be simpler than those of the fake tensor; -1 is worked out there.
    """
    sizes = tuple(known if size == -1 else size for size, known in zip(shape, op.out.sizes, strict=True))
    return x if sizes == op.sizes(x) else op.reshape(x, sizes)


@lowering(
    aten.view_as.default,
    aten.reshape_as.default,
    aten.flatten.using_ints,
    aten.unflatten.int,
    aten.ravel.default,
    aten.squeeze.default,
    aten.squeeze_copy.default,
    aten.atleast_1d.default,
    aten.atleast_2d.default,
    aten.atleast_3d.default,
    prims.collapse.default,
    prims.collapse_view.default,
    prims.split_dim.default,
)
def regroup(op: Op, x: Value, *_: Any) -> Value:
    """flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)

    Ops that say by their arguments what the sizes of the result say as well.
    """
    return x if op.sizes(x) == op.out.sizes else op.reshape(x, op.out.sizes)


@lowering(aten.view.dtype)
def view_dtype(op: Op, x: Value, dtype: ir.DataType) -> Value:
    """view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)

    The same bits: BitCast, from opset 26 on. Before it, only between integers of one width, which Cast reads alike.
    """
    assert x.dtype is not None
    if x.dtype == dtype:
        return x
    if x.dtype.bitwidth != dtype.bitwidth:
        raise Unsupported(f"a view of {x.dtype.name} as {dtype.name}, which is of another width")
    if {x.dtype, dtype} <= INTEGERS | {ir.DataType.BOOL}:
        return op.Cast(x, to=dtype)
    if op.opset < BITCAST_SINCE:
        raise Unsupported(
            f"a view of {x.dtype.name} as {dtype.name} before opset {BITCAST_SINCE}, which brings BitCast"
        )
    return op.BitCast(x, to=dtype)


@lowering(aten.squeeze.dim, aten.squeeze.dims, aten.squeeze_copy.dim, aten.squeeze_copy.dims, prims.squeeze.default)
def squeeze(op: Op, x: Value, dim: int | Sequence[int]) -> Value:
    """squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)

    Axes that are not of size 1 stay, as in PyTorch.
    """
    sizes = op.sizes(x)
    dims = [dim] if isinstance(dim, int) else dim
    ones = sorted({axis_of(each, len(sizes)) for each in dims if sizes and sizes[axis_of(each, len(sizes))] == 1})
    return op.Squeeze(x, ones) if ones else x


@lowering(aten.unsqueeze.default, aten.unsqueeze_copy.default)
def unsqueeze(op: Op, x: Value, dim: int) -> Value:
    """unsqueeze(Tensor(a) self, int dim) -> Tensor(a)"""
    return op.Unsqueeze(x, [axis_of(dim, op.out.rank)])


@lowering(aten.permute.default, aten.permute_copy.default, prims.transpose.default)
def permute(op: Op, x: Value, dims: Sequence[int]) -> Value:
    """permute(Tensor(a) self, int[] dims) -> Tensor(a)"""
    return transposed(op, x, [axis_of(dim, len(dims)) for dim in dims])


@lowering(aten.transpose.int, aten.transpose_copy.int, aten.swapaxes.default, aten.swapdims.default)
def transpose(op: Op, x: Value, dim0: int, dim1: int) -> Value:
    """transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"""
    rank = op.rank(x)
    order = list(range(rank))
    if rank:
        a, b = axis_of(dim0, rank), axis_of(dim1, rank)
        order[a], order[b] = b, a
    return transposed(op, x, order)


@lowering(aten.t.default, aten.t_copy.default, aten.numpy_T.default)
def t(op: Op, x: Value) -> Value:
    """t(Tensor(a) self) -> Tensor(a)"""
    return transposed(op, x, list(range(op.rank(x)))[::-1])


@lowering(aten.mT.default, aten.mH.default, aten.adjoint.default)
def mT(op: Op, x: Value) -> Value:  # noqa: N802  # the ATen name
    """mT(Tensor(a) self) -> Tensor(a)

    Of real matrices: the parts of complex ones are tensors of their own by now.
    """
    *leading, a, b = range(op.rank(x))
    return transposed(op, x, [*leading, b, a])


@lowering(aten.movedim.int, aten.movedim.intlist, aten.moveaxis.int, aten.moveaxis.intlist)
def movedim(op: Op, x: Value, source: int | Sequence[int], destination: int | Sequence[int]) -> Value:
    """movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"""
    rank = op.rank(x)
    sources = [source] if isinstance(source, int) else source
    destinations = [destination] if isinstance(destination, int) else destination
    places = {axis_of(to, rank): axis_of(of, rank) for of, to in zip(sources, destinations, strict=True)}
    return transposed(op, x, moved(rank, places))


def transposed(op: Op, x: Value, order: Sequence[int]) -> Value:
    """`x` with its axes in another order; `x` itself where the order is the one it has."""
    if list(order) == list(range(len(order))):
        return x
    sizes = op.sizes(x)
    return op.typed(op.Transpose(x, perm=list(order)), [sizes[axis] for axis in order])


@lowering(aten.expand.default, aten.expand_copy.default)
def expand(op: Op, x: Value, size: Sequence[Size], *, implicit: bool = False) -> Value:
    """expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)"""
    return expanded(op, x, op.out.sizes)


@lowering(aten.expand_as.default)
def expand_as(op: Op, x: Value, other: Value) -> Value:
    """expand_as(Tensor(a) self, Tensor other) -> Tensor(a)"""
    return expanded(op, x, op.out.sizes)


def expanded(op: Op, x: Value, sizes: Sequence[Size]) -> Value:
    """`x` broadcast to sizes of the same or a higher rank.

    ONNX's Expand broadcasts both ways. So an axis that keeps its size is asked for as 1: more shapes are constant.
    An axis that becomes empty is sliced: ONNX Runtime drops an Expand that makes no axis larger, also where it makes
    one smaller.
    """
    added = len(sizes) - op.rank(x)
    for axis, (size, has) in enumerate(zip(sizes[added:], op.sizes(x), strict=True)):
        if size == 0 and has != 0:
            x = op.typed(sliced(op, x, axis, 0, 0), [*op.sizes(x)[:axis], 0, *op.sizes(x)[axis + 1 :]])
    known = op.sizes(x)
    if tuple(sizes) == known:
        return x
    asked = [*sizes[:added], *(1 if size == has else size for size, has in zip(sizes[added:], known, strict=True))]
    return op.typed(op.Expand(x, op.shape(asked)), sizes)


def spread(op: Op, value: Any, dtype: ir.DataType | None, sizes: Sequence[Size]) -> Value:
    """One number all over these sizes."""
    return expanded(op, op.typed(op.const(value, dtype=dtype), ()), sizes)


@lowering(aten.copy.default)
def copy(op: Op, x: Value, src: Value, non_blocking: bool = False) -> Value:
    """copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor

    The values of `src` in the sizes and the dtype of `self`.
    """
    return expanded(op, op.cast(src, op.out.dtype), op.out.sizes)


@lowering(prims.broadcast_in_dim.default)
def broadcast_in_dim(op: Op, x: Value, shape: Sequence[Size], broadcast_dimensions: Sequence[int]) -> Value:
    """prims::broadcast_in_dim(Tensor(a) a, SymInt[] shape, int[] broadcast_dimensions) -> Tensor(a)"""
    sizes: list[Size] = [1] * op.out.rank
    for axis, size in zip(broadcast_dimensions, op.sizes(x), strict=True):
        sizes[axis] = size
    placed = x if tuple(sizes) == op.sizes(x) else op.reshape(x, sizes)
    return expanded(op, placed, op.out.sizes)


@lowering(aten.meshgrid.default, aten.meshgrid.indexing)
def meshgrid(op: Op, tensors: Values, *, indexing: str = "ij") -> list[Value]:
    """meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]

    The k-th tensor runs along axis k; with "xy" the first two axes change places.
    """
    axes = list(range(len(tensors)))
    if indexing == "xy":
        axes[:2] = reversed(axes[:2])
    grids: list[Value] = []
    for axis, tensor, out in zip(axes, tensors, op.outs, strict=True):
        sizes: list[Size] = [1] * out.rank
        sizes[axis] = out.sizes[axis]
        line = tensor if tuple(sizes) == op.sizes(tensor) else op.reshape(tensor, sizes)
        grids.append(expanded(op, line, out.sizes))
    return grids
