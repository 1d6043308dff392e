"""Order statistics: the k-th value, the median, the mode."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value
from fxport.exporter.lowering.lower.dtypes import int_range, is_float
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import axis_of, flat, sliced
from fxport.exporter.lowering.lowerings.reduce import reduced
from fxport.exporter.lowering.lowerings.runs import numbered_runs
from fxport.exporter.lowering.lowerings.sort import ranked

aten = torch.ops.aten

NAN_CAST: Mapping[ir.DataType | None, int] = {
    ir.DataType.INT64: int_range(ir.DataType.INT64)[0],
    ir.DataType.INT32: int_range(ir.DataType.INT32)[0],
    ir.DataType.BOOL: 1,
}
"""Result of casting NaN to other dtypes on an x86 CPU; in the narrower ones 0."""


@lowering(aten.kthvalue.default)
def kthvalue(op: Op, x: Value, k: Size, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    if op.rank(x) == 0:
        return x, op.const(0)
    axis = axis_of(dim, op.rank(x))
    return _last(op, *ranked(op, x, k, axis, largest=False), axis, keepdim)


@lowering(aten.median.dim)
def median_dim(op: Op, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    return _median(op, x, dim, keepdim, over_nan=False)


@lowering(aten.nanmedian.dim)
def nanmedian_dim(op: Op, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    return _median(op, x, dim, keepdim, over_nan=True)


@lowering(aten.median.default)
def median(op: Op, x: Value) -> Value:
    """median(Tensor self) -> Tensor"""
    return _median_of_all(op, x, over_nan=False)


@lowering(aten.nanmedian.default)
def nanmedian(op: Op, x: Value) -> Value:
    """nanmedian(Tensor self) -> Tensor"""
    return _median_of_all(op, x, over_nan=True)


def _median_of_all(op: Op, x: Value, *, over_nan: bool) -> Value:
    """Of nothing it is NaN, or what PyTorch's CPU makes of NaN where the dtype has none."""
    sizes = op.sizes(x)
    if 0 in sizes:
        return op.const(float("nan") if is_float(x.dtype) else NAN_CAST.get(x.dtype, 0), like=x)
    return _median(op, flat(op, x), 0, False, over_nan=over_nan)[0] if sizes else x


def _median(op: Op, x: Value, dim: int, keepdim: bool, *, over_nan: bool) -> tuple[Value, Value]:
    """The lower of the two middle elements; for floats see `_place_of_median`."""
    if op.rank(x) == 0:
        return x, op.const(0)
    axis = axis_of(dim, op.rank(x))
    length = op.sizes(x)[axis]
    if not is_float(x.dtype):
        return _last(op, *ranked(op, x, (length + 1) // 2, axis, largest=False), axis, keepdim)
    values, order = ranked(op, x, length, axis, largest=False)
    return _gathered(op, values, order, _place_of_median(op, x, axis, over_nan=over_nan), axis, keepdim)


def _place_of_median(op: Op, x: Value, axis: int, *, over_nan: bool) -> Value:
    """Compute the index of the median in ascending order.

    NaN comes last there: the first NaN is the median where there is one, or else the elements before it are all that
    count.
    """
    length = op.sizes(x)[axis]
    is_nan = op.typed(op.Cast(op.IsNaN(x), to=ir.DataType.INT64), op.sizes(x))
    nans = reduced(op, "ReduceSum", is_nan, axis, keepdim=True)
    numbers = op.Sub(op.const(length), nans)
    if over_nan:
        return op.Div(op.Max(op.Sub(numbers, 1), 0), 2)
    return op.Where(op.Equal(nans, 0), op.const((length - 1) // 2), numbers)


@lowering(aten.mode.default)
def mode(op: Op, x: Value, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)

    The longest run in the ascending order, of equal runs the first; its index is that of the run's last element.
    """
    sizes = op.sizes(x)
    if not sizes:
        return x, op.const(0)
    axis = axis_of(dim, len(sizes))
    values, order = ranked(op, x, sizes[axis], axis, largest=False)
    run = numbered_runs(op, values, axis)
    none = op.Mul(run, 0)
    lengths = op.ScatterElements(none, run, op.Add(none, 1), axis=axis, reduction="add")
    upto = op.LessOrEqual(run, op.ArgMax(lengths, axis=axis, keepdims=1))
    count = reduced(op, "ReduceSum", op.typed(op.Cast(upto, to=ir.DataType.INT64), sizes), axis, keepdim=True)
    return _gathered(op, values, order, op.Sub(count, 1), axis, keepdim)


def _last(op: Op, values: Value, order: Value, axis: int, keepdim: bool) -> tuple[Value, Value]:
    last, index = (sliced(op, each, axis, -1) for each in (values, order))
    return (last, index) if keepdim else (op.Squeeze(last, [axis]), op.Squeeze(index, [axis]))


def _gathered(op: Op, values: Value, order: Value, place: Value, axis: int, keepdim: bool) -> tuple[Value, Value]:
    found, index = (op.GatherElements(each, place, axis=axis) for each in (values, order))
    return (found, index) if keepdim else (op.Squeeze(found, [axis]), op.Squeeze(index, [axis]))
