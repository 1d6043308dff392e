"""Tensors side by side, repeated, turned round: cat, stack, repeat, roll, flip."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.utils._sympy.functions import Max, PythonMod

from fxport.exporter.lowering.lower.builder import Op, Size, Value, Values
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import BEFORE_FIRST, axis_of, flat, sliced
from fxport.exporter.lowering.lowerings.shape import expanded

aten, prims = torch.ops.aten, torch.ops.prims


@lowering(aten.cat.default, aten.concat.default, aten.concatenate.default, prims.cat.default)
def cat(op: Op, tensors: Values, dim: int = 0) -> Value:
    """cat(Tensor[] tensors, int dim=0) -> Tensor

    What is empty along the axis adds nothing; PyTorch lets a tensor of sizes (0,) stand among those of any rank.
    """
    axis = axis_of(dim, op.out.rank)
    full = [x for x in tensors if op.rank(x) == op.out.rank and op.sizes(x)[axis] != 0]
    parts = [op.cast(x, op.out.dtype) for x in full or tensors[:1]]
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=axis)


@lowering(aten.stack.default)
def stack(op: Op, tensors: Values, dim: int = 0) -> Value:
    """stack(Tensor[] tensors, int dim=0) -> Tensor"""
    axis = axis_of(dim, op.out.rank)
    parts = [op.Unsqueeze(op.cast(x, op.out.dtype), [axis]) for x in tensors]
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=axis)


@lowering(aten.repeat.default)
def repeat(op: Op, x: Value, repeats: Sequence[Size]) -> Value:
    """repeat(Tensor self, SymInt[] repeats) -> Tensor"""
    return tiled(op, x, repeats)


@lowering(aten.tile.default)
def tile(op: Op, x: Value, dims: Sequence[Size]) -> Value:
    """tile(Tensor self, SymInt[] dims) -> Tensor"""
    return tiled(op, x, [*[1] * (op.rank(x) - len(dims)), *dims])


def tiled(op: Op, x: Value, repeats: Sequence[Size]) -> Value:
    """Tile; where only axes of size 1 are repeated, Expand."""
    sizes = [*[1] * (len(repeats) - op.rank(x)), *op.sizes(x)]
    wide = x if len(sizes) == op.rank(x) else op.reshape(x, sizes)
    if all(size == 1 or count == 1 for size, count in zip(sizes, repeats, strict=True)):
        return expanded(op, wide, op.out.sizes)
    return op.Tile(wide, op.shape(repeats))


@lowering(aten.flip.default)
def flip(op: Op, x: Value, dims: Sequence[int]) -> Value:
    """flip(Tensor self, int[] dims) -> Tensor

    A Slice that runs backwards.
    """
    axes = [axis_of(dim, op.rank(x)) for dim in dims] if op.rank(x) else []
    if not axes:
        return x
    count = len(axes)
    return op.Slice(x, [-1] * count, [BEFORE_FIRST] * count, axes, [-1] * count)


@lowering(prims.rev.default)
def rev(op: Op, x: Value, dims: Sequence[int]) -> Value:
    """prims::rev(Tensor a, int[] dims) -> Tensor"""
    return flip(op, x, dims)


@lowering(aten.roll.default)
def roll(op: Op, x: Value, shifts: Sequence[Size], dims: Sequence[int] = ()) -> Value:
    """roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor

    The end of an axis before its beginning, axis by axis. Without dims the elements roll in their order.
    """
    if not dims:
        return op.reshape(_rolled(op, flat(op, x), shifts[0], 0), op.out.sizes)
    for shift, dim in zip(shifts, dims, strict=True):
        x = _rolled(op, x, shift, axis_of(dim, op.rank(x)))
    return x


def _rolled(op: Op, x: Value, shift: Size, axis: int) -> Value:
    sizes = op.sizes(x)
    if not sizes or sizes[axis] in (0, 1):
        return x
    start = _first(-shift, sizes[axis])
    if start == 0:
        return x
    return op.typed(op.Concat(sliced(op, x, axis, start), sliced(op, x, axis, 0, start), axis=axis), sizes)


def _first(shift: Size, size: Size) -> Size:
    """The place of the element that comes first: a shift modulo the size, which may be 0 where it is symbolic."""
    if isinstance(shift, int) and isinstance(size, int):
        return shift % size
    return PythonMod(shift, Max(size, 1))  # type: ignore[return-value]  # an integer expression
