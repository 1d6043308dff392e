"""Roundings, signs and what is left of them. Integers are their own roundings."""

from __future__ import annotations

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.dtypes import is_float
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.signs import is_negative
from fxport.exporter.lowering.lowerings.precision import in_float

aten = torch.ops.aten
prims = torch.ops.prims

BOOL, INT64, DOUBLE = ir.DataType.BOOL, ir.DataType.INT64, ir.DataType.DOUBLE


@lowering(aten.floor.default, prims.floor.default)
def floor(op: Op, x: Value) -> Value:
    """floor(Tensor self) -> Tensor"""
    return op.Floor(x) if is_float(x.dtype) else x


@lowering(aten.ceil.default, prims.ceil.default)
def ceil(op: Op, x: Value) -> Value:
    """ceil(Tensor self) -> Tensor"""
    return op.Ceil(x) if is_float(x.dtype) else x


@lowering(aten.round.default, prims.round.default)
def round_(op: Op, x: Value) -> Value:
    """round(Tensor self) -> Tensor

    Halves go to the even neighbour in ONNX as in PyTorch.
    """
    return op.Round(x) if is_float(x.dtype) else x


@lowering(aten.round.decimals)
@in_float
def round_decimals(op: Op, x: Value, *, decimals: int) -> Value:
    """round.decimals(Tensor self, *, int decimals) -> Tensor"""
    if decimals == 0:
        return round_(op, x)
    power = 10.0 ** abs(decimals)
    if decimals > 0:
        return op.Div(op.Round(op.Mul(x, power)), power)
    return op.Mul(op.Round(op.Div(x, power)), power)


@lowering(aten.trunc.default, prims.trunc.default)
def trunc(op: Op, x: Value) -> Value:
    """trunc(Tensor self) -> Tensor

    ONNX has no Trunc, a cast to integers and back would lose large values and NaN, and ONNX Runtime's Where the sign of
    -0.0. What is left of a number below 1 is 0 times that number.
    """
    if not is_float(x.dtype):
        return x
    return op.Mul(op.Floor(op.Abs(x)), op.Clip(x, op.const(-1, like=x), op.const(1, like=x)))


@lowering(aten.frac.default)
def frac(op: Op, x: Value) -> Value:
    """frac(Tensor self) -> Tensor

    NaN for infinities, and 0 for whole numbers of either sign.
    """
    return op.Sub(x, trunc(op, x))


@lowering(aten.sign.default, aten.sgn.default, prims.sign.default)
def sign(op: Op, x: Value) -> Value:
    """sign(Tensor self) -> Tensor

    PyTorch's sign of NaN is 0, ONNX's is NaN. ONNX Runtime's Sign of INT64 is that of the lower half where the number
    has more than 32 bits, so there the sign is asked of a double.
    """
    if is_float(x.dtype):
        return op.Where(op.IsNaN(x), 0, op.Sign(x))
    if x.dtype == INT64:
        return op.cast(op.Sign(op.cast(x, DOUBLE)), INT64)
    return x if x.dtype == BOOL else op.Sign(x)


@lowering(aten.signbit.default)
def signbit(op: Op, x: Value) -> Value:
    """signbit(Tensor self) -> Tensor

    NaN counts as positive.
    """
    if x.dtype == BOOL:
        return op.And(x, False)
    return is_negative(op, x) if is_float(x.dtype) else op.Less(x, 0)


@lowering(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(op: Op, x: Value, other: Value | Scalar) -> Value:
    """copysign.Tensor(Tensor self, Tensor other) -> Tensor

    By a product: ONNX Runtime's Where makes 0 of -0.
    """
    return op.Mul(op.Abs(x), op.Where(signbit(op, op.const(other, like=x)), op.const(-1.0, like=x), 1.0))
