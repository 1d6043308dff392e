"""Runs of equal neighbours, and the distinct elements of a tensor."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.dtypes import is_float
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import LAST, axis_of, flat
from fxport.exporter.lowering.lowerings.sort import ranked

aten = torch.ops.aten


def starts_of_runs(op: Op, x: Value, axis: int) -> Value:
    """Compute as BOOL where elements differ from the one before along `axis`; the first does. NaN differs from NaN."""
    first = op.ConstantOfShape(op.Shape(op.Slice(x, [0], [1], [axis])), value=np.array([True]))
    before, after = op.Slice(x, [0], [-1], [axis]), op.Slice(x, [1], [LAST], [axis])
    return op.Concat(first, op.Not(op.Equal(after, before)), axis=axis)


def numbered_runs(op: Op, x: Value, axis: int) -> Value:
    """The number of the run that each element is in, from 0 on."""
    return op.Sub(op.CumSum(op.Cast(starts_of_runs(op, x, axis), to=ir.DataType.INT64), axis), 1)


@lowering(aten._unique2.default)
def unique2(
    op: Op, x: Value, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Value, Value, Value]:
    """_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) \
-> (Tensor, Tensor, Tensor)

    Sorted also where that is not asked for. Floats are sorted here and by `_distinct`, because ONNX Runtime's Unique
    takes NaN for equal to everything, while in PyTorch no two of them are equal.
    """
    vector = _vector(op, x)
    if is_float(x.dtype):
        values, order = ranked(op, x=vector, count=op.sizes(vector)[0], dim=0, largest=False)
        values, run, counts = _distinct(op, values, starts_of_runs(op, values, 0), 0)
        inverse = op.ScatterElements(order, order, run, axis=0)
    else:
        values, _, inverse, counts = op.Unique(vector, sorted=1, outputs=4)
    return values, _if_any(op, 1, op.reshape(inverse, op.sizes(x))), _if_any(op, 2, counts)


@lowering(aten.unique_dim.default)
def unique_dim(
    op: Op, x: Value, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Value, Value, Value]:
    """unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) \
-> (Tensor, Tensor, Tensor)

    A slice with NaN is equal to none but itself. PyTorch's order is undefined beside such slices, and may keep equal
    slices apart; here they are sorted as if NaN were infinity, and equal ones are one.
    """
    if op.rank(x) == 1:
        return unique2(op, x, sorted, return_inverse, return_counts)
    axis = axis_of(dim, op.rank(x))
    key = _equal_as_in_pytorch(op, x, axis) if is_float(x.dtype) else x
    _, first, inverse, counts = op.Unique(key, axis=axis, sorted=1, outputs=4)
    return op.Gather(x, first, axis=axis), inverse, counts


def _equal_as_in_pytorch(op: Op, x: Value, axis: int) -> Value:
    """Compute slices as DOUBLE for ONNX Runtime's Unique, which takes NaN for equal to everything.

    NaN becomes infinity, and behind each slice stands a number, which is its own where the slice has NaN.
    """
    others = [each for each in range(op.rank(x)) if each != axis]
    wide = op.cast(x, ir.DataType.DOUBLE)
    is_nan = op.IsNaN(wide)
    has_nan = op.ReduceMax(op.Cast(is_nan, to=ir.DataType.UINT8), others, keepdims=1)
    number = op.CumSum(op.Cast(has_nan, to=ir.DataType.DOUBLE), axis)
    own = op.Where(op.Cast(has_nan, to=ir.DataType.BOOL), number, 0.0)
    beside = [size if each not in (axis, others[0]) else 1 for each, size in enumerate(op.sizes(x))]
    values = op.Where(is_nan, math.inf, wide)
    return op.Concat(values, op.Expand(own, op.shape(beside)), axis=others[0])


@lowering(aten.unique_consecutive.default)
def unique_consecutive(
    op: Op, x: Value, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Value, Value, Value]:
    """unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) \
-> (Tensor, Tensor, Tensor)"""
    if dim is not None:
        return _consecutive_slices(op, x, axis_of(dim, op.rank(x)))
    vector = _vector(op, x)
    values, run, counts = _distinct(op, vector, starts_of_runs(op, vector, 0), 0)
    return values, _if_any(op, 1, op.reshape(run, op.sizes(x))), _if_any(op, 2, counts)


def _consecutive_slices(op: Op, x: Value, axis: int) -> tuple[Value, Value, Value]:
    """A slice starts a run where any of its elements does."""
    starts = op.Cast(starts_of_runs(op, x, axis), to=ir.DataType.UINT8)
    others = [each for each in range(op.rank(x)) if each != axis]
    starts = op.ReduceMax(starts, others, keepdims=0) if others else starts
    values, run, counts = _distinct(op, x, op.Cast(starts, to=ir.DataType.BOOL), axis)
    return values, _if_any(op, 1, run), _if_any(op, 2, counts)


def _vector(op: Op, x: Value) -> Value:
    return flat(op, x) if op.rank(x) else op.reshape(x, [1])


def _distinct(op: Op, x: Value, starts: Value, axis: int) -> tuple[Value, Value, Value]:
    """The first element of each run, the number of each element's run, and the lengths of the runs."""
    run = op.Sub(op.CumSum(op.Cast(starts, to=ir.DataType.INT64), 0), 1)
    *_, lengths = op.Unique(run, sorted=1, outputs=4)
    return op.Compress(x, starts, axis=axis), run, lengths


def _if_any(op: Op, result: int, value: Value) -> Value:
    """A value, or the empty vector where that is what PyTorch gives for a result that is not asked for."""
    return op.const([]) if op.outs[result].sizes == (0,) else value
