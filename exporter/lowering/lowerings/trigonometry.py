"""Angles that ONNX has no operator for."""

from __future__ import annotations

import math

import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.dtypes import is_float
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.signs import is_negative, is_sum, with_sign
from fxport.exporter.lowering.lowerings.double import unary
from fxport.exporter.lowering.lowerings.precision import in_float

aten = torch.ops.aten
prims = torch.ops.prims


@lowering(aten.atan2.default, prims.atan2.default)
@in_float
def atan2(op: Op, x: Value, other: Value) -> Value:
    """atan2(Tensor self, Tensor other) -> Tensor

    The arc tangent of the slope, and half a turn more where `other` is negative, -0 included, to the side of `self`,
    whose sign a result of 0 has too. The slope of two zeros or two infinities, which the division leaves open, is that
    of their signs.
    """
    if is_sum(other):
        other = op.Where(op.Equal(other, 0), op.const(0, like=other), other)
    height = op.Abs(x)
    slope = op.Div(height, other)
    slope = op.Where(op.IsNaN(slope), op.Mul(op.Sign(height), op.Sign(other)), slope)
    half_turn = op.Where(is_negative(op, other), op.const(math.pi, like=x), 0)
    return with_sign(op, op.Add(unary(op, "Atan", slope), half_turn), x)


@lowering(aten.angle.default)
def angle(op: Op, x: Value) -> Value:
    """angle(Tensor self) -> Tensor

    Of real numbers: half a turn where they are negative.
    """
    half_turn = op.Where(op.Less(x, 0), op.const(math.pi, dtype=op.out.dtype), 0)
    return op.Where(op.IsNaN(x), x, half_turn) if is_float(x.dtype) else half_turn
