"""Quotients and remainders, with PyTorch's roundings and signs."""

from __future__ import annotations

import math
from typing import TypeGuard

import numpy as np
import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.dtypes import UNSIGNED, is_float
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.symbols import floor_quotient
from fxport.exporter.lowering.lowerings.precision import in_float, with_whole_numbers
from fxport.exporter.lowering.lowerings.rounding import trunc

aten = torch.ops.aten
prims = torch.ops.prims

FLOAT, DOUBLE, INT64 = ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT64
LARGEST = float(np.finfo(np.float32).max)


@lowering(aten.div.Tensor, aten.div.Scalar, prims.div.default)
@with_whole_numbers
def div(op: Op, x: Value | Scalar, other: Value | Scalar) -> Value:
    """div.Tensor(Tensor self, Tensor other) -> Tensor

    Integers reach this as floats, except in prims.div, which truncates as ONNX's Div does, and where both are numbers.
    """
    if not isinstance(x, ir.Value):
        x = op.const(x, dtype=other.dtype if isinstance(other, ir.Value) else op.out.dtype)
    return op.Div(x, other)


@lowering(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(op: Op, x: Value | Scalar, other: Value | Scalar, *, rounding_mode: str | None) -> Value:
    """div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor

    A quotient of halves is rounded to a half before it is truncated, but not one by a number: so does PyTorch.
    """
    if rounding_mode == "floor":
        return floor_divide(op, x, other)
    if rounding_mode == "trunc" and not isinstance(other, ir.Value):
        return _truncated(op, x, other)
    quotient = div(op, x, other)
    return trunc(op, quotient) if rounding_mode == "trunc" else quotient


@in_float
def _truncated(op: Op, x: Value, other: Scalar) -> Value:
    return trunc(op, op.Div(x, other))


@lowering(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(op: Op, x: Value | Scalar, other: Value | Scalar) -> Value:
    """floor_divide(Tensor self, Tensor other) -> Tensor"""
    dtype = op.out.dtype
    return _floor_divide(
        op, op.const(x, dtype=dtype), other if isinstance(other, (int, float)) else op.const(other, dtype=dtype)
    )


@in_float
def _floor_divide(op: Op, x: Value, other: Value | Scalar) -> Value:
    if is_float(x.dtype):
        return _floor_divide_floats(op, x, other)
    return op.Div(x, other) if x.dtype in UNSIGNED else _floor_divide_integers(op, x, other)


def _floor_divide_integers(op: Op, x: Value, other: Value | Scalar) -> Value:
    """Div truncates, so what is left over is taken away first; as INT64, where the difference of others does not
    overflow.
    """
    wide, divisor = op.cast(x, INT64), op.const(other, dtype=INT64)
    if x.dtype == INT64:
        return floor_quotient(op, wide, divisor, op.Less(divisor, 0) if isinstance(other, ir.Value) else other < 0)
    return op.cast(op.Div(op.Sub(wide, op.Mod(wide, divisor)), divisor), op.out.dtype)


def _floor_divide_floats(op: Op, x: Value, other: Value | Scalar) -> Value:
    """Python's `//`: the floor of the quotient as it is before it is rounded. 1 // 0.1 is 9, and 1 / 0.1 is 10.

    By powers of two division is exact but for denormal numbers, and in float64 the quotient of two float32 never rounds
    up to an integer. Otherwise it is the quotient of what the remainder leaves, which is an integer but for its own
    rounding. An infinity divided gives NaN, by a term that is 0 otherwise; a division by 0 gives what it does without
    rounding.
    """
    if _is_power_of_two(other):
        return op.Add(op.Floor(op.Div(x, other)), op.Mul(x, math.copysign(0.0, other)))
    if x.dtype == FLOAT and isinstance(other, (int, float)) and 0 < abs(other) < LARGEST:
        quotient = op.Div(op.cast(x, DOUBLE), float(np.float32(other)))
        return op.cast(op.Add(op.Floor(quotient), op.Mul(quotient, 0)), FLOAT)
    rest, quotient = op.Mod(x, other, fmod=1), op.Div(x, other)
    whole = op.Div(op.Sub(x, rest), other)
    floor = op.Round(op.Where(_signs_differ(op, rest, other), op.Sub(whole, 1), whole))
    return op.Where(op.Equal(op.const(other, like=x), 0), quotient, floor)


def _is_power_of_two(number: Value | Scalar) -> TypeGuard[Scalar]:
    return isinstance(number, (int, float)) and math.isfinite(number) and abs(math.frexp(number)[0]) == 0.5


@lowering(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor, prims.remainder.default)
def remainder(op: Op, x: Value | Scalar, other: Value | Scalar) -> Value:
    """remainder.Tensor(Tensor self, Tensor other) -> Tensor

    The sign is the divisor's. ONNX's Mod gives that for integers; for floats it gives the dividend's, and where the two
    differ the divisor is added.
    """
    x = op.const(x, dtype=op.out.dtype)
    other = other if isinstance(other, (int, float)) else op.const(other, like=x)
    if not is_float(x.dtype):
        return op.Mod(x, other)
    rest = op.Mod(x, other, fmod=1)
    return op.Where(_signs_differ(op, rest, other), op.Add(rest, other), rest)


def _signs_differ(op: Op, rest: Value, other: Value | Scalar) -> Value:
    """Compute as BOOL where one is positive and the other negative."""
    if isinstance(other, (int, float)):
        return op.Less(rest, 0) if other > 0 else op.Greater(rest, 0)
    return op.Less(op.Mul(op.Sign(rest), op.Sign(other)), 0)


@lowering(aten.fmod.Tensor, aten.fmod.Scalar, prims.fmod.default)
def fmod(op: Op, x: Value, other: Value | Scalar) -> Value:
    """fmod.Tensor(Tensor self, Tensor other) -> Tensor

    The sign is the dividend's. ONNX Runtime has it by doubles, which do not hold every INT64; Div truncates as C does.
    """
    if x.dtype == INT64:
        return op.Sub(x, op.Mul(op.Div(x, other), other))
    return op.Mod(x, other, fmod=1)
