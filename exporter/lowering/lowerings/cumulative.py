"""Running sums, products, extremes and logarithms of sums."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.dtypes import HALVES, is_float, is_integer
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import axis_of
from fxport.exporter.lowering.lowerings.exponential import closeness, log1p_parts
from fxport.exporter.lowering.lowerings.prefix import prefixes, running_product

aten = torch.ops.aten


@lowering(aten.cumsum.default)
def cumsum(op: Op, x: Value, dim: int, *, dtype: ir.DataType | None = None) -> Value:
    """cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor

    In the dtype of the result; integers in INT64, so that they wrap, and FLOAT in DOUBLE.
    """
    x = _accumulated(op, op.cast(x, op.out.dtype))
    return op.cast(op.CumSum(x, dim) if op.rank(x) else x, op.out.dtype)


@lowering(aten.cumprod.default)
def cumprod(op: Op, x: Value, dim: int, *, dtype: ir.DataType | None = None) -> Value:
    """cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    x = _accumulated(op, op.cast(x, op.out.dtype))
    if op.rank(x) == 0:
        return op.cast(x, op.out.dtype)
    return op.cast(running_product(op, x, axis_of(dim, op.rank(x))), op.out.dtype)


def _accumulated(op: Op, x: Value) -> Value:
    """In the dtype of PyTorch's running sums and products: FLOAT in DOUBLE, else `_widened`."""
    return op.cast(x, ir.DataType.DOUBLE) if x.dtype == ir.DataType.FLOAT else _widened(op, x)


def _widened(op: Op, x: Value) -> Value:
    """In what PyTorch adds up: halves in FLOAT. Integers that are wide enough to wrap where the result does."""
    if x.dtype in HALVES:
        return op.cast(x, ir.DataType.FLOAT)
    return op.cast(x, ir.DataType.INT64) if is_integer(x.dtype) or x.dtype == ir.DataType.BOOL else x


@lowering(aten.logcumsumexp.default)
def logcumsumexp(op: Op, x: Value, dim: int) -> Value:
    """logcumsumexp(Tensor self, int dim) -> Tensor

    What is carried is the largest element, and the sum of the others' exponentials relative to it: the one logarithm
    at the end rounds once, and of large elements nothing is lost on the way.
    """
    x = _widened(op, x)
    if op.rank(x) == 0:
        return op.cast(x, op.out.dtype)

    def combine(before: Sequence[Value], after: Sequence[Value]) -> list[Value]:
        (largest, others), (next_largest, next_others) = before, after
        share = op.Exp(closeness(op, largest, next_largest))
        first = op.Add(others, op.Mul(share, op.Add(next_others, 1)))
        second = op.Add(next_others, op.Mul(share, op.Add(others, 1)))
        return [op.Max(largest, next_largest), op.Where(op.GreaterOrEqual(largest, next_largest), first, second)]

    nothing = op.typed(op.Expand(op.const(0.0, like=x), op.shape(op.sizes(x))), op.sizes(x))
    largest, others = prefixes(op, [x, nothing], axis_of(dim, op.rank(x)), combine)
    return op.cast(op.Add(largest, op.Add(*log1p_parts(op, others))), op.out.dtype)


@lowering(aten.cummax.default)
def cummax(op: Op, x: Value, dim: int) -> tuple[Value, Value]:
    """cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)"""
    return _running_extreme(op, "GreaterOrEqual", x, dim)


@lowering(aten.cummin.default)
def cummin(op: Op, x: Value, dim: int) -> tuple[Value, Value]:
    """cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)"""
    return _running_extreme(op, "LessOrEqual", x, dim)


def _running_extreme(op: Op, comparison: str, x: Value, dim: int) -> tuple[Value, Value]:
    """Of equal elements the last one counts, and the last NaN before everything else."""
    sizes = op.sizes(x)
    if not sizes:
        return x, op.const(0)
    carried = op.cast(x, ir.DataType.UINT8) if x.dtype == ir.DataType.BOOL else x

    def later_if_better(before: Sequence[Value], after: Sequence[Value]) -> list[Value]:
        better = op.call(comparison, after[0], before[0])
        better = op.Or(better, op.IsNaN(after[0])) if is_float(x.dtype) else better
        return [op.Where(better, late, early) for early, late in zip(before, after, strict=True)]

    axis = axis_of(dim, len(sizes))
    places = op.Range(0, op.const(sizes[axis]), 1)
    if len(sizes) > 1:
        column = op.reshape(places, [sizes[axis] if each == axis else 1 for each in range(len(sizes))])
        places = op.Expand(column, op.shape(sizes))
    values, indices = prefixes(op, [carried, op.typed(places, sizes)], axis, later_if_better)
    return op.const(values, like=x), indices
