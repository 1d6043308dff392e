"""Angles that ONNX has no operator for."""

from __future__ import annotations

import math

import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.dtypes import is_float
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.double import unary
from fxport.exporter.lowering.lowerings.precision import in_float
from fxport.exporter.lowering.lowerings.rounding import is_sum, signbit

aten = torch.ops.aten
prims = torch.ops.prims


@lowering(aten.atan2.default, prims.atan2.default)
@in_float
def atan2(op: Op, x: Value, other: Value) -> Value:
    """atan2(Tensor self, Tensor other) -> Tensor

    The arc tangent of the slope, and half a turn to the side of `self` where `other` is negative, -0 included. The
    slope of two zeros or two infinities, which the division leaves open, is that of their signs.
    """
    if is_sum(other):
        other = op.Where(op.Equal(other, 0), op.const(0, like=other), other)
    slope = op.Div(x, other)
    slope = op.Where(op.IsNaN(slope), op.Mul(op.Sign(x), op.Sign(other)), slope)
    half_turn = op.Where(signbit(op, x), op.const(-math.pi, like=x), op.const(math.pi, like=x))
    return op.Add(unary(op, "Atan", slope), op.Where(signbit(op, other), half_turn, 0))


@lowering(aten.angle.default)
def angle(op: Op, x: Value) -> Value:
    """angle(Tensor self) -> Tensor

    Of real numbers: half a turn where they are negative.
    """
    half_turn = op.Where(op.Less(x, 0), op.const(math.pi, dtype=op.out.dtype), 0)
    return op.Where(op.IsNaN(x), x, half_turn) if is_float(x.dtype) else half_turn
