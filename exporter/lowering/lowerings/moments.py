"""Variance and standard deviation."""

from __future__ import annotations

import onnx_ir as ir
import torch
from torch.utils._sympy.functions import Max

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.dtypes import HALVES
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.symbols import is_symbolic
from fxport.exporter.lowering.lowerings.reduce import Dims, averaged, axes_of, counted, reduced

aten = torch.ops.aten


def variance(op: Op, x: Value, dim: Dims, correction: Scalar | None, keepdim: bool) -> tuple[Value, Value]:
    """Variance, and the mean with the reduced axes kept; halves in FLOAT and FLOAT in DOUBLE, as PyTorch computes them:
    squares of large and of small numbers are in its range, and the deviation of such is.

    Two passes over the data: the mean first, then the sum of squares of what is left. The divisor is not below 0, so
    that too few elements give infinity or NaN.
    """
    if x.dtype in HALVES:
        x = op.cast(x, ir.DataType.FLOAT)
    elif x.dtype == ir.DataType.FLOAT:
        x = op.cast(x, ir.DataType.DOUBLE)
    mean = averaged(op, x, dim, keepdim=True)
    rest = op.typed(op.Sub(x, mean), op.sizes(x))
    less = counted(op, x, dim) - (1 if correction is None else correction)
    divisor = Max(less, 0) if is_symbolic(less) else max(less, 0)
    return op.Div(reduced(op, "ReduceSumSquare", rest, dim, keepdim), op.const(divisor, like=x)), mean


@lowering(aten.var.correction)
def var(op: Op, x: Value, dim: Dims = None, *, correction: Scalar | None = None, keepdim: bool = False) -> Value:
    """var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    return op.cast(variance(op, x, dim, correction, keepdim)[0], op.out.dtype)


@lowering(aten.std.correction)
def std(op: Op, x: Value, dim: Dims = None, *, correction: Scalar | None = None, keepdim: bool = False) -> Value:
    """std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    return op.cast(op.Sqrt(variance(op, x, dim, correction, keepdim)[0]), op.out.dtype)


@lowering(aten.var_mean.correction)
def var_mean(
    op: Op, x: Value, dim: Dims = None, *, correction: Scalar | None = None, keepdim: bool = False
) -> tuple[Value, Value]:
    """var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) \
-> (Tensor, Tensor)"""
    found, mean = variance(op, x, dim, correction, keepdim)
    return op.cast(found, op.out.dtype), _mean(op, x, mean, dim, keepdim)


@lowering(aten.std_mean.correction)
def std_mean(
    op: Op, x: Value, dim: Dims = None, *, correction: Scalar | None = None, keepdim: bool = False
) -> tuple[Value, Value]:
    """std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) \
-> (Tensor, Tensor)"""
    found, mean = variance(op, x, dim, correction, keepdim)
    return op.cast(op.Sqrt(found), op.out.dtype), _mean(op, x, mean, dim, keepdim)


def _mean(op: Op, x: Value, mean: Value, dim: Dims, keepdim: bool) -> Value:
    mean = mean if keepdim else op.Squeeze(mean, axes_of(op.rank(x), dim))
    return op.cast(mean, op.out.dtype)
