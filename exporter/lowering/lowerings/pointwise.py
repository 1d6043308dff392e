"""Element by element: the operators that ONNX has one to one, and arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.dtypes import UNSIGNED
from fxport.exporter.lowering.lower.registry import Lowering, lowering
from fxport.exporter.lowering.lowerings.double import unary
from fxport.exporter.lowering.lowerings.precision import in_float, with_whole_numbers

aten = torch.ops.aten
prims = torch.ops.prims

BOOL = ir.DataType.BOOL

UNARY: Mapping[str, tuple[Any, ...]] = {
    "Acos": (aten.acos.default, prims.acos.default),
    "Acosh": (aten.acosh.default, prims.acosh.default),
    "Asin": (aten.asin.default, prims.asin.default),
    "Asinh": (aten.asinh.default, prims.asinh.default),
    "Atan": (aten.atan.default, prims.atan.default),
    "Atanh": (aten.atanh.default, prims.atanh.default),
    "Cos": (aten.cos.default, prims.cos.default),
    "Cosh": (aten.cosh.default, prims.cosh.default),
    "Erf": (aten.erf.default, prims.erf.default),
    "Exp": (aten.exp.default, prims.exp.default),
    "Log": (aten.log.default, prims.log.default),
    "Reciprocal": (aten.reciprocal.default, prims.reciprocal.default),
    "Sigmoid": (aten.sigmoid.default,),
    "Sin": (aten.sin.default, prims.sin.default),
    "Sinh": (aten.sinh.default, prims.sinh.default),
    "Sqrt": (aten.sqrt.default, prims.sqrt.default),
    "Tan": (aten.tan.default, prims.tan.default),
    "Tanh": (aten.tanh.default, prims.tanh.default),
}
"""ONNX operators of one float tensor, and the ATen ops that they are."""

BOOLEAN: Mapping[str, str] = {"Add": "Or", "Mul": "And", "Max": "Or", "Min": "And"}
"""Logical operator for each arithmetic operator on truth values, which ONNX's arithmetic does not take."""


def _unary(op_type: str, targets: tuple[Any, ...]) -> Lowering:
    def function(op: Op, x: Value) -> Value:
        return unary(op, op_type, x)

    schema = targets[0]._schema
    function.__name__ = schema.name.removeprefix("aten::")
    function.__doc__ = str(schema).removeprefix("aten::")
    return lowering(*targets)(function)


LOWERINGS = tuple(_unary(op_type, targets) for op_type, targets in UNARY.items())


def arithmetic(op: Op, op_type: str, x: Value | Scalar, other: Value | Scalar) -> Value:
    """A binary operator of ONNX, or what it is on truth values. PyTorch puts up with numbers on the left, too."""
    if not isinstance(x, ir.Value):
        x = op.const(x, dtype=other.dtype if isinstance(other, ir.Value) else op.out.dtype)
    return op.call(BOOLEAN[op_type] if x.dtype == BOOL else op_type, x, other)


@lowering(aten.add.Tensor, aten.add.Scalar, prims.add.default)
def add(op: Op, x: Value | Scalar, other: Value | Scalar, alpha: Scalar = 1) -> Value:
    """add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return arithmetic(op, "Add", x, _scaled(op, other, alpha))


@lowering(aten.sub.Tensor, aten.sub.Scalar, prims.sub.default)
def sub(op: Op, x: Value | Scalar, other: Value | Scalar, alpha: Scalar = 1) -> Value:
    """sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return op.Sub(op.const(x, dtype=op.out.dtype), _scaled(op, other, alpha))


@lowering(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(op: Op, x: Value, other: Value | Scalar, alpha: Scalar = 1) -> Value:
    """rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    dtype = op.out.dtype
    return op.Sub(op.const(other, dtype=dtype), _scaled(op, op.cast(x, dtype), alpha))


def _scaled(op: Op, value: Value | Scalar, alpha: Scalar) -> Value | Scalar:
    return value if alpha == 1 else arithmetic(op, "Mul", value, alpha)


@lowering(aten.mul.Tensor, aten.mul.Scalar, prims.mul.default)
@with_whole_numbers
def mul(op: Op, x: Value | Scalar, other: Value | Scalar) -> Value:
    """mul.Tensor(Tensor self, Tensor other) -> Tensor"""
    return arithmetic(op, "Mul", x, other)


@lowering(aten.neg.default, prims.neg.default)
def neg(op: Op, x: Value) -> Value:
    """neg(Tensor self) -> Tensor

    Neg has no unsigned types; there the difference from 0 wraps as PyTorch's result does.
    """
    return op.Sub(0, x) if x.dtype in UNSIGNED else op.Neg(x)


@lowering(aten.abs.default, prims.abs.default)
def abs_(op: Op, x: Value) -> Value:
    """abs(Tensor self) -> Tensor"""
    return x if x.dtype == BOOL else op.Abs(x)


@lowering(aten.rsqrt.default, prims.rsqrt.default)
def rsqrt(op: Op, x: Value) -> Value:
    """rsqrt(Tensor self) -> Tensor"""
    return op.Reciprocal(op.Sqrt(x))


@lowering(aten.addcmul.default)
@in_float
def addcmul(op: Op, x: Value, tensor1: Value, tensor2: Value, *, value: Scalar = 1) -> Value:
    """addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    return op.Add(x, op.Mul(tensor1 if value == 1 else op.Mul(tensor1, value), tensor2))


@lowering(aten.addcdiv.default)
@in_float
def addcdiv(op: Op, x: Value, tensor1: Value, tensor2: Value, *, value: Scalar = 1) -> Value:
    """addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    return op.Add(x, op.Div(tensor1 if value == 1 else op.Mul(tensor1, value), tensor2))


@lowering(aten.lerp.Scalar, aten.lerp.Tensor)
@in_float
def lerp(op: Op, x: Value, end: Value, weight: Value | Scalar) -> Value:
    """lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor

    PyTorch starts from whichever end is nearer, so that a weight of 1 gives `end` exactly.
    """
    way = op.Sub(end, x)
    if isinstance(weight, (int, float)):
        return op.Add(x, op.Mul(way, weight)) if abs(weight) < 0.5 else op.Sub(end, op.Mul(way, 1 - weight))
    weight = op.const(weight, like=x)
    from_start = op.Add(x, op.Mul(way, weight))
    from_end = op.Sub(end, op.Mul(way, op.Sub(1, weight)))
    return op.Where(op.Less(op.Abs(weight), 0.5), from_start, from_end)


@lowering(aten.hypot.default, prims.hypot.default)
@in_float
def hypot(op: Op, x: Value, other: Value) -> Value:
    """hypot(Tensor self, Tensor other) -> Tensor

    The longer leg times sqrt(1 + ratio²), which neither overflows nor underflows; within 2 ulp. Legs of equal length
    have the ratio 1 also where both are 0 or infinite. An infinite leg makes it infinite, even if the other is NaN.
    """
    x, other = op.Abs(x), op.Abs(other)
    infinite = op.Or(op.Equal(x, math.inf), op.Equal(other, math.inf))
    longer, shorter = op.Max(x, other), op.Min(x, other)
    ratio = op.Where(op.Equal(longer, shorter), 1, op.Div(shorter, longer))
    return op.Where(infinite, math.inf, op.Mul(longer, op.Sqrt(op.Add(op.Mul(ratio, ratio), 1))))
