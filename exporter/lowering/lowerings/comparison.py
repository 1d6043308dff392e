"""Comparisons, choices and limits, with PyTorch's answers for NaN."""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.dtypes import float_range, is_float
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.pointwise import arithmetic

aten = torch.ops.aten
prims = torch.ops.prims

BOOL, UINT8, INT64, FLOAT = ir.DataType.BOOL, ir.DataType.UINT8, ir.DataType.INT64, ir.DataType.FLOAT


@lowering(aten.eq.Tensor, aten.eq.Scalar, prims.eq.default)
def eq(op: Op, x: Value, other: Value | Scalar) -> Value:
    """eq.Tensor(Tensor self, Tensor other) -> Tensor"""
    return op.Equal(x, other)


@lowering(aten.ne.Tensor, aten.ne.Scalar, prims.ne.default)
def ne(op: Op, x: Value, other: Value | Scalar) -> Value:
    """ne.Tensor(Tensor self, Tensor other) -> Tensor"""
    return op.Xor(x, other) if x.dtype == BOOL else op.Not(op.Equal(x, other))


@lowering(aten.lt.Tensor, aten.lt.Scalar, prims.lt.default)
def lt(op: Op, x: Value, other: Value | Scalar) -> Value:
    """lt.Tensor(Tensor self, Tensor other) -> Tensor"""
    return _ordered(op, "Less", x, other)


@lowering(aten.le.Tensor, aten.le.Scalar, prims.le.default)
def le(op: Op, x: Value, other: Value | Scalar) -> Value:
    """le.Tensor(Tensor self, Tensor other) -> Tensor"""
    return _ordered(op, "LessOrEqual", x, other)


@lowering(aten.gt.Tensor, aten.gt.Scalar, prims.gt.default)
def gt(op: Op, x: Value, other: Value | Scalar) -> Value:
    """gt.Tensor(Tensor self, Tensor other) -> Tensor"""
    return _ordered(op, "Greater", x, other)


@lowering(aten.ge.Tensor, aten.ge.Scalar, prims.ge.default)
def ge(op: Op, x: Value, other: Value | Scalar) -> Value:
    """ge.Tensor(Tensor self, Tensor other) -> Tensor"""
    return _ordered(op, "GreaterOrEqual", x, other)


def _ordered(op: Op, op_type: str, x: Value, other: Value | Scalar) -> Value:
    """ONNX orders no truth values: they are compared as numbers."""
    if x.dtype == BOOL:
        x, other = op.cast(x, UINT8), op.const(op.const(other, dtype=BOOL), dtype=UINT8)
    return op.call(op_type, x, other)


@lowering(aten.isnan.default)
def isnan(op: Op, x: Value) -> Value:
    """isnan(Tensor self) -> Tensor"""
    return op.IsNaN(x) if is_float(x.dtype) else _nowhere(op, x)


@lowering(aten.isinf.default)
def isinf(op: Op, x: Value) -> Value:
    """isinf(Tensor self) -> Tensor"""
    return op.IsInf(x) if is_float(x.dtype) else _nowhere(op, x)


@lowering(aten.isposinf.default)
def isposinf(op: Op, x: Value) -> Value:
    """isposinf(Tensor self) -> Tensor"""
    return op.IsInf(x, detect_negative=0) if is_float(x.dtype) else _nowhere(op, x)


@lowering(aten.isneginf.default)
def isneginf(op: Op, x: Value) -> Value:
    """isneginf(Tensor self) -> Tensor"""
    return op.IsInf(x, detect_positive=0) if is_float(x.dtype) else _nowhere(op, x)


@lowering(aten.isfinite.default, prims.isfinite.default)
def isfinite(op: Op, x: Value) -> Value:
    """isfinite(Tensor self) -> Tensor

    Nothing but infinity and NaN is not less than infinity.
    """
    return op.Less(op.Abs(x), math.inf) if is_float(x.dtype) else op.Not(_nowhere(op, x))


@lowering(aten.isclose.default)
def isclose(op: Op, x: Value, other: Value, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Value:
    """isclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool equal_nan=False) -> Tensor

    Integers are compared as float32 where they are not equal. A distance that is infinite or NaN is not close.
    """  # noqa: E501  # the schema
    equal = op.Equal(x, other)
    if equal_nan and is_float(x.dtype):
        equal = op.Or(equal, op.And(op.IsNaN(x), op.IsNaN(other)))
    if rtol == 0 and atol == 0:
        return equal
    working = x.dtype if is_float(x.dtype) else FLOAT
    x, other = op.const(x, dtype=working), op.const(other, dtype=working)
    distance, allowed = op.Abs(op.Sub(x, other)), op.Add(op.Abs(op.Mul(other, rtol)), atol)
    return op.Or(equal, op.And(op.LessOrEqual(distance, allowed), op.Less(distance, math.inf)))


def _nowhere(op: Op, x: Value) -> Value:
    """False for every element."""
    return op.Expand(op.const(False), op.shape(op.sizes(x)))


@lowering(aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar, prims.where.default)
def where(op: Op, condition: Value, x: Value | Scalar, other: Value | Scalar) -> Value:
    """where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"""
    dtype = op.out.dtype
    return choose(op, op.cast(condition, BOOL), op.const(x, dtype=dtype), op.const(other, dtype=dtype))


@lowering(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(op: Op, x: Value, mask: Value, value: Value | Scalar) -> Value:
    """masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor"""
    return choose(op, op.cast(mask, BOOL), op.const(value, like=x), x)


def choose(op: Op, condition: Value, x: Value, other: Value) -> Value:
    """Select by Where; for truth values, for which ONNX Runtime has no Where, by logical operators."""
    if x.dtype != BOOL:
        return op.Where(condition, x, other)
    return op.Or(op.And(condition, x), op.And(op.Not(condition), other))


@lowering(aten.maximum.default, prims.maximum.default)
def maximum(op: Op, x: Value, other: Value) -> Value:
    """maximum(Tensor self, Tensor other) -> Tensor

    NaN wins, in ONNX Runtime's Max too. Its Max, Min and Clip of INT64 are wrong where two numbers differ in no more
    than their lower halves and in the sign of those (0 and 2**31), so there a choice stands in their place.
    """
    return op.Where(op.Less(x, other), other, x) if x.dtype == INT64 else arithmetic(op, "Max", x, other)


@lowering(aten.minimum.default, prims.minimum.default)
def minimum(op: Op, x: Value, other: Value) -> Value:
    """minimum(Tensor self, Tensor other) -> Tensor"""
    return op.Where(op.Less(other, x), other, x) if x.dtype == INT64 else arithmetic(op, "Min", x, other)


@lowering(aten.fmax.default, prims.fmax.default)
def fmax(op: Op, x: Value, other: Value) -> Value:
    """fmax(Tensor self, Tensor other) -> Tensor

    A number wins over NaN.
    """
    return _unless_nan(op, maximum, x, other)


@lowering(aten.fmin.default, prims.fmin.default)
def fmin(op: Op, x: Value, other: Value) -> Value:
    """fmin(Tensor self, Tensor other) -> Tensor"""
    return _unless_nan(op, minimum, x, other)


def _unless_nan(op: Op, choose: Callable[[Op, Value, Value], Value], x: Value, other: Value) -> Value:
    chosen = choose(op, x, other)
    if not is_float(x.dtype):
        return chosen
    return op.Where(op.IsNaN(x), other, op.Where(op.IsNaN(other), x, chosen))


@lowering(aten.clamp.default, aten.clamp.Tensor)
def clamp(op: Op, x: Value, min: Value | Scalar | None = None, max: Value | Scalar | None = None) -> Value:
    """clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor

    Clip takes two numbers. It would take infinities for numbers too large with one bound only, and ignores a bound that
    is NaN, so those are Max and Min.
    """
    if _is_number(min) and _is_number(max) and x.dtype != INT64:
        return op.Clip(x, op.const(min, like=x), op.const(max, like=x))
    if min is not None:
        x = clamp_min(op, x, min)
    return x if max is None else clamp_max(op, x, max)


def _is_number(bound: Value | Scalar | None) -> bool:
    return isinstance(bound, int) or (isinstance(bound, float) and not math.isnan(bound))


@lowering(aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp_min(op: Op, x: Value, min: Value | Scalar) -> Value:
    """clamp_min(Tensor self, Scalar min) -> Tensor

    Relu for 0, which ONNX Runtime fuses into what is before it.
    """
    if is_float(x.dtype) and isinstance(min, (int, float)) and min == 0:
        return op.Relu(x)
    return maximum(op, x, op.const(min, like=x))


@lowering(aten.clamp_max.default, aten.clamp_max.Tensor)
def clamp_max(op: Op, x: Value, max: Value | Scalar) -> Value:
    """clamp_max(Tensor self, Scalar max) -> Tensor"""
    return minimum(op, x, op.const(max, like=x))


@lowering(aten.nan_to_num.default)
def nan_to_num(
    op: Op, x: Value, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Value:
    """nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor

    The defaults for infinities are the largest numbers, to which Clip takes them.
    """
    if not is_float(op.out.dtype):
        return op.cast(x, op.out.dtype)
    lowest, largest = float_range(op.out.dtype)
    given = posinf is not None and neginf is not None
    numbers = x if given else op.Clip(x, op.const(lowest, like=x), op.const(largest, like=x))
    if posinf is not None:
        numbers = op.Where(op.IsInf(x, detect_negative=0), posinf, numbers)
    if neginf is not None:
        numbers = op.Where(op.IsInf(x, detect_positive=0), neginf, numbers)
    return op.Where(op.IsNaN(x), nan or 0.0, numbers)
