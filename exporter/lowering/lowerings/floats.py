"""Floats taken apart: mantissa and exponent, neighbours."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.dtypes import float_range, is_float
from fxport.exporter.lowering.lower.registry import lowering

aten = torch.ops.aten
prims = torch.ops.prims

DOUBLE, INT32 = ir.DataType.DOUBLE, ir.DataType.INT32
LN2 = 0.6931471805599453

MOST = 2046.0
"""The largest exponent whose halves are those of finite doubles: by it every float becomes infinite or 0."""

PRECISION: Mapping[ir.DataType, tuple[int, int]] = {
    ir.DataType.FLOAT16: (11, -24),
    ir.DataType.BFLOAT16: (8, -133),
    ir.DataType.FLOAT: (24, -149),
    ir.DataType.DOUBLE: (53, -1074),
}
"""Bits of the significand, and the exponent of the smallest positive number."""


@lowering(aten.ldexp.Tensor)
def ldexp(op: Op, x: Value, other: Value) -> Value:
    """ldexp.Tensor(Tensor self, Tensor other) -> Tensor

    For an integer exponent in float64 and in two halves: the power alone may be beyond where the product is not.
    """
    if is_float(other.dtype):
        x, other = (op.cast(each, op.out.dtype) for each in (x, other))
        return op.Mul(x, op.Pow(op.const(2.0, like=x), other))
    exponent = op.Clip(op.cast(other, DOUBLE), -MOST, MOST)
    half = op.Floor(op.Mul(exponent, 0.5))
    scaled = op.Mul(op.cast(x, DOUBLE), power_of_two(op, half))
    return op.cast(op.Mul(scaled, power_of_two(op, op.Sub(exponent, half))), op.out.dtype)


@lowering(aten.frexp.Tensor, prims.frexp.default)
def frexp(op: Op, x: Value) -> tuple[Value, Value]:
    """frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)"""
    mantissa, exponent = taken_apart(op, op.cast(x, DOUBLE))
    return op.cast(mantissa, op.out.dtype), op.Cast(exponent, to=INT32)


@lowering(aten.nextafter.default, prims.nextafter.default)
def nextafter(op: Op, x: Value, other: Value) -> Value:
    """nextafter(Tensor self, Tensor other) -> Tensor

    One unit in the last place away, in float64, where the sum is exact. Towards 0 the unit below a power of two is half
    as large. An infinity's neighbour is the largest number.
    """
    dtype = op.out.dtype
    bits, smallest = PRECISION[dtype]
    x, other = op.cast(x, DOUBLE), op.cast(other, DOUBLE)
    mantissa, exponent = taken_apart(op, x)
    direction = op.Sign(op.Sub(other, x))
    narrow = op.Equal(op.Mul(mantissa, direction), -0.5)
    last = op.Sub(exponent, op.Where(narrow, op.const(bits + 1.0, dtype=DOUBLE), float(bits)))
    unit = op.Where(op.Equal(x, 0), float(smallest), op.Max(last, float(smallest)))
    moved = op.Add(x, op.Mul(direction, power_of_two(op, unit)))
    low, high = float_range(dtype)
    moved = op.Where(op.IsInf(x), op.Clip(x, op.const(low, dtype=DOUBLE), op.const(high, dtype=DOUBLE)), moved)
    moved = op.Where(op.Equal(x, other), other, moved)
    return op.cast(op.Where(op.IsNaN(other), other, moved), dtype)


def taken_apart(op: Op, x: Value) -> tuple[Value, Value]:
    """(mantissa of 1/2 to 1, exponent), both DOUBLE. The exponent of 0, infinities and NaN is 0.

    The logarithm may be off by one next to a power of two; the mantissa shows it. The power is applied in two halves,
    since that of a subnormal number is beyond float64.
    """
    odd = op.Or(op.Or(op.Equal(x, 0), op.IsInf(x)), op.IsNaN(x))
    length = op.Where(odd, 0.5, op.Abs(x))
    exponent = op.Add(op.Floor(op.Div(op.Log(length), LN2)), 1)
    half = op.Floor(op.Mul(exponent, 0.5))
    scaled = op.Mul(length, power_of_two(op, op.Neg(half)))
    scaled = op.Mul(scaled, power_of_two(op, op.Sub(half, exponent)))
    below = op.Cast(op.Less(scaled, 0.5), to=DOUBLE)
    above = op.Cast(op.GreaterOrEqual(scaled, 1), to=DOUBLE)
    correction = op.Sub(above, below)
    mantissa = op.Mul(op.Mul(scaled, power_of_two(op, op.Neg(correction))), op.Sign(x))
    return op.Where(odd, x, mantissa), op.Add(exponent, correction)


def power_of_two(op: Op, exponent: Value) -> Value:
    return op.Pow(op.const(2.0, dtype=DOUBLE), exponent)
