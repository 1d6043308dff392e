"""A tensor's checksum."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.dtypes import is_float
from fxport.exporter.lowering.lower.registry import Unsupported, lowering
from fxport.exporter.lowering.lowerings.floats import power_of_two, taken_apart
from fxport.exporter.lowering.lowerings.prefix import prefixes
from fxport.exporter.lowering.lowerings.reduce import counted, folded, may_be_empty

aten = torch.ops.aten

BITCAST_FROM = 26
"""The opset at which the bits of a float can be read."""

INT64 = ir.DataType.INT64
SIGNIFICAND, FIRST_EXPONENT = 53, -1021
"""Bits of a double's significand, and the exponent of the smallest that is normal, for significands below 1."""
INFINITY, NAN = 0x7FF << 52, 0xFFF << 51
"""Their bits."""


@lowering(aten.hash_tensor.default)
def hash_tensor(op: Op, x: Value, dim: Sequence[int] = (), *, keepdim: bool = False, mode: int = 0) -> Value:
    """hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor

    The exclusive or of all bits, of integers as INT64 and of floats as DOUBLE.
    """
    if may_be_empty(counted(op, x, dim)):
        raise Unsupported("the checksum of no elements")
    return folded(op, _bits(op, x), dim, keepdim, lambda x, axis: _running_xor(op, x, axis))


def _bits(op: Op, x: Value) -> Value:
    if not is_float(x.dtype):
        return op.cast(op.cast(x, ir.DataType.INT64), ir.DataType.UINT64)
    wide = op.cast(x, ir.DataType.DOUBLE)
    bits = op.BitCast(wide, to=ir.DataType.UINT64) if op.opset >= BITCAST_FROM else _bits_by_arithmetic(op, wide)
    return op.typed(bits, op.sizes(x))


def _bits_by_arithmetic(op: Op, x: Value) -> Value:
    """The bits of doubles as IEEE 754 has them; of NaN those of the usual one."""
    mantissa, exponent = taken_apart(op, x)
    fraction = op.Mul(op.Abs(mantissa), 2.0**SIGNIFICAND)
    below = op.Less(exponent, FIRST_EXPONENT)
    shifted = op.Mul(fraction, power_of_two(op, op.Where(below, op.Sub(exponent, FIRST_EXPONENT), 0.0)))
    biased = op.cast(op.Where(below, 0.0, op.Sub(exponent, FIRST_EXPONENT)), INT64)
    number = op.Add(op.Cast(shifted, to=INT64), op.Mul(biased, 2 ** (SIGNIFICAND - 1)))
    number = op.Where(op.IsInf(x), INFINITY, op.Where(op.IsNaN(x), NAN, op.Where(op.Equal(x, 0), 0, number)))
    negative = op.Less(op.Where(op.Equal(x, 0), op.Reciprocal(x), x), 0)
    return op.Cast(op.Where(negative, op.Add(number, -(2**63)), number), to=ir.DataType.UINT64)


def _running_xor(op: Op, x: Value, axis: int) -> Value:
    (found,) = prefixes(op, [x], axis, lambda before, after: [op.BitwiseXor(before[0], after[0])])
    return found
