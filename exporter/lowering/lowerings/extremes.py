"""Largest and smallest elements, and where they are. Wherever there is NaN it is the answer, as in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.dtypes import is_float
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import axis_of, flat
from fxport.exporter.lowering.lowerings.reduce import Dims, reduced, sizes_after

aten = torch.ops.aten


def largest(op: Op, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    """The maximum, NaN if there is any: ONNX Runtime's ReduceMax passes over NaN."""
    found = reduced(op, "ReduceMax", x, dim, keepdim)
    return nan_if_any(op, found, x, dim, keepdim) if is_float(x.dtype) else found


def nan_if_any(op: Op, found: Value, x: Value, dim: Dims, keepdim: bool) -> Value:
    """`found`, which is not below the maximum of `x`, or NaN where `x` has any along the axes.

    The sum of magnitudes is NaN then, and else its negative is not above any element: Max with that changes nothing.
    """
    return op.Max(found, op.Neg(reduced(op, "ReduceL1", x, dim, keepdim)))


def smallest(op: Op, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    """The minimum, NaN if there is any; see `nan_if_any`."""
    found = reduced(op, "ReduceMin", x, dim, keepdim)
    return op.Min(found, reduced(op, "ReduceL1", x, dim, keepdim)) if is_float(x.dtype) else found


def place_of(op: Op, op_type: str, x: Value, dim: int, keepdim: bool) -> Value:
    """Compute the index of the first extreme along `dim`, by ArgMax or ArgMin; the first NaN, if there is any.

    ONNX Runtime's operators compare, and so find NaN only where it comes first. The axis is counted from the front:
    from the back they take no notice of it where there are no elements.
    """
    dim = axis_of(dim, op.rank(x))
    place = op.call(op_type, x, axis=dim, keepdims=int(keepdim))
    if not is_float(x.dtype):
        return place
    first_nan = op.ArgMax(op.Cast(op.IsNaN(x), to=ir.DataType.UINT8), axis=dim, keepdims=int(keepdim))
    return op.Where(op.IsNaN(reduced(op, "ReduceL1", x, dim, keepdim)), first_nan, place)


@lowering(aten.amax.default)
def amax(op: Op, x: Value, dim: Sequence[int] = (), keepdim: bool = False) -> Value:
    """amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"""
    return largest(op, x, dim, keepdim)


@lowering(aten.amin.default)
def amin(op: Op, x: Value, dim: Sequence[int] = (), keepdim: bool = False) -> Value:
    """amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"""
    return smallest(op, x, dim, keepdim)


@lowering(aten.max.default)
def max_(op: Op, x: Value) -> Value:
    """max(Tensor self) -> Tensor"""
    return largest(op, x)


@lowering(aten.min.default)
def min_(op: Op, x: Value) -> Value:
    """min(Tensor self) -> Tensor"""
    return smallest(op, x)


@lowering(aten.max.dim)
def max_dim(op: Op, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)

    Two searches: most models use but one of the results, and the other is then dead code.
    """
    return largest(op, x, dim, keepdim), _place(op, "ArgMax", x, dim, keepdim)


@lowering(aten.min.dim)
def min_dim(op: Op, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    return smallest(op, x, dim, keepdim), _place(op, "ArgMin", x, dim, keepdim)


@lowering(aten.argmax.default)
def argmax(op: Op, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"""
    return _place(op, "ArgMax", x, dim, keepdim)


@lowering(aten.argmin.default)
def argmin(op: Op, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"""
    return _place(op, "ArgMin", x, dim, keepdim)


def _place(op: Op, op_type: str, x: Value, dim: int | None, keepdim: bool) -> Value:
    rank = op.rank(x)
    if rank == 0:
        return op.const(0)
    if x.dtype == ir.DataType.BOOL:
        x = op.cast(x, ir.DataType.UINT8)
    if dim is not None or rank == 1:
        return place_of(op, op_type, x, dim or 0, keepdim)
    place = place_of(op, op_type, flat(op, x), 0, False)
    return op.reshape(place, sizes_after(op.sizes(x), range(rank), True)) if keepdim else place


@lowering(aten.aminmax.default)
def aminmax(op: Op, x: Value, *, dim: int | None = None, keepdim: bool = False) -> tuple[Value, Value]:
    """aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)"""
    return smallest(op, x, dim, keepdim), largest(op, x, dim, keepdim)
