"""Truth values and bits."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.dtypes import UNSIGNED
from fxport.exporter.lowering.lower.registry import lowering

aten = torch.ops.aten
prims = torch.ops.prims

BOOL = ir.DataType.BOOL

LOGICAL: Mapping[str, str] = {"BitwiseAnd": "And", "BitwiseOr": "Or", "BitwiseXor": "Xor", "BitwiseNot": "Not"}
"""Logical operator of ONNX for each operator on bits, for truth values."""


@lowering(aten.logical_and.default)
def logical_and(op: Op, x: Value, other: Value) -> Value:
    """logical_and(Tensor self, Tensor other) -> Tensor"""
    return op.And(op.cast(x, BOOL), op.cast(other, BOOL))


@lowering(aten.logical_or.default)
def logical_or(op: Op, x: Value, other: Value) -> Value:
    """logical_or(Tensor self, Tensor other) -> Tensor"""
    return op.Or(op.cast(x, BOOL), op.cast(other, BOOL))


@lowering(aten.logical_xor.default)
def logical_xor(op: Op, x: Value, other: Value) -> Value:
    """logical_xor(Tensor self, Tensor other) -> Tensor"""
    return op.Xor(op.cast(x, BOOL), op.cast(other, BOOL))


@lowering(aten.logical_not.default)
def logical_not(op: Op, x: Value) -> Value:
    """logical_not(Tensor self) -> Tensor"""
    return op.Not(op.cast(x, BOOL))


@lowering(aten.bitwise_and.Tensor, aten.bitwise_and.Scalar, aten.bitwise_and.Scalar_Tensor, prims.bitwise_and.default)
def bitwise_and(op: Op, x: Value | Scalar, other: Value | Scalar) -> Value:
    """bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor"""
    return _bitwise(op, "BitwiseAnd", x, other)


@lowering(aten.bitwise_or.Tensor, aten.bitwise_or.Scalar, aten.bitwise_or.Scalar_Tensor, prims.bitwise_or.default)
def bitwise_or(op: Op, x: Value | Scalar, other: Value | Scalar) -> Value:
    """bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor"""
    return _bitwise(op, "BitwiseOr", x, other)


@lowering(aten.bitwise_xor.Tensor, aten.bitwise_xor.Scalar, aten.bitwise_xor.Scalar_Tensor, prims.bitwise_xor.default)
def bitwise_xor(op: Op, x: Value | Scalar, other: Value | Scalar) -> Value:
    """bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor"""
    return _bitwise(op, "BitwiseXor", x, other)


@lowering(aten.bitwise_not.default, prims.bitwise_not.default)
def bitwise_not(op: Op, x: Value) -> Value:
    """bitwise_not(Tensor self) -> Tensor"""
    return _bitwise(op, "BitwiseNot", x)


def _bitwise(op: Op, op_type: str, *operands: Value | Scalar) -> Value:
    dtype = op.out.dtype
    given = [op.const(operand, dtype=dtype) for operand in operands]
    return op.call(LOGICAL[op_type] if dtype == BOOL else op_type, *given)


@lowering(
    aten.bitwise_left_shift.Tensor,
    aten.bitwise_left_shift.Tensor_Scalar,
    aten.bitwise_left_shift.Scalar_Tensor,
    aten.__lshift__.Tensor,
    aten.__lshift__.Scalar,
    prims.shift_left.default,
)
def bitwise_left_shift(op: Op, x: Value | Scalar, other: Value | Scalar) -> Value:
    """bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor

    A shift by fewer than 0 or as many bits as there are leaves nothing.
    """
    dtype = op.out.dtype
    bits = int(dtype.bitwidth)
    x = op.const(x, dtype=dtype)
    if isinstance(other, int):
        return op.Mul(x, 2**other if 0 <= other < bits else 0)
    other = op.const(other, dtype=dtype)
    shifted = _shift(op, x, other, "LEFT")
    return op.Where(_within(op, other, bits), shifted, 0)


@lowering(
    aten.bitwise_right_shift.Tensor,
    aten.bitwise_right_shift.Tensor_Scalar,
    aten.bitwise_right_shift.Scalar_Tensor,
    aten.__rshift__.Tensor,
    aten.__rshift__.Scalar,
    prims.shift_right_arithmetic.default,
)
def bitwise_right_shift(op: Op, x: Value | Scalar, other: Value | Scalar) -> Value:
    """bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor

    Arithmetic: the sign fills in. ONNX's BitShift is logical and unsigned, so a negative number is shifted as its
    complement. A shift by fewer than 0 or as many bits as there are leaves the sign alone.
    """
    dtype = op.out.dtype
    bits = int(dtype.bitwidth)
    x = op.const(x, dtype=dtype)
    if isinstance(other, int) and dtype not in UNSIGNED:
        return _shifted_by(op, x, other if 0 <= other < bits else bits - 1)
    shift = op.const(other, dtype=dtype)
    if dtype in UNSIGNED:
        return op.Where(_within(op, shift, bits), _shift(op, x, shift, "RIGHT"), 0)
    negative = op.Less(x, 0)
    shift = op.Where(_within(op, shift, bits), shift, bits - 1)
    shifted = _shift(op, op.Where(negative, op.BitwiseNot(x), x), shift, "RIGHT")
    return op.Where(negative, op.BitwiseNot(shifted), shifted)


def _shifted_by(op: Op, x: Value, places: int) -> Value:
    """A signed integer shifted right by a constant.

    A cast to 64 bits extends the sign, so what moves into a narrower number is right already. Of int64 the sign's bit
    is extended from its new place (Warren, Hacker's Delight, 2-5).
    """
    shifted = _shift(op, x, op.const(places, dtype=ir.DataType.UINT64), "RIGHT")
    if x.dtype != ir.DataType.INT64 or places == 0:
        return shifted
    sign = 1 << (63 - places)
    return op.Sub(op.BitwiseXor(shifted, sign), sign)


def _within(op: Op, shift: Value, bits: int) -> Value:
    below = op.Less(shift, bits)
    return below if shift.dtype in UNSIGNED else op.And(op.GreaterOrEqual(shift, 0), below)


def _shift(op: Op, x: Value, other: Value, direction: str) -> Value:
    """BitShift knows unsigned integers only; casts between them and signed ones keep the bits."""
    wide = ir.DataType.UINT64
    return op.cast(op.BitShift(op.cast(x, wide), op.cast(other, wide), direction=direction), op.out.dtype)
