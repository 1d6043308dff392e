"""Sources of random numbers: uniform and normal ones, and coins.

ONNX Runtime's kernels of the random operators end at opset 21. Of those that opset 22 renewed it has only Dropout, in
training mode, whose mask is as good a source of random bits; from there on numbers are made of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import pi

import numpy as np
import onnx_ir as ir

from fxport.exporter.lowering.lower.builder import Op, Size, Value
from fxport.exporter.lowering.lower.symbols import is_symbolic

LAST_OPSET = 21
"""At which ONNX Runtime runs RandomUniform and RandomNormal."""

FLOAT, DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE

BITS: Mapping[ir.DataType, int] = {
    ir.DataType.BFLOAT16: 8,
    ir.DataType.FLOAT16: 11,
    FLOAT: 24,
    DOUBLE: 53,
}
"""Of a uniform number: as many as the significand holds, as in PyTorch, so that none is rounded up to 1."""


def wide(dtype: ir.DataType | None) -> ir.DataType:
    """The dtype in which random numbers of a dtype are computed."""
    return DOUBLE if dtype == DOUBLE else FLOAT


def coins(op: Op, sizes: Sequence[Size], probability: float) -> Value:
    """Truth values, each true with that probability: what Dropout lets through."""
    if probability == 0:
        return op.ConstantOfShape(op.shape(sizes), value=np.array([False]))
    _, mask = op.Dropout(op.Expand(1.0, op.shape(sizes)), 1.0 - probability, True, outputs=2)
    return op.typed(mask, sizes)


def uniform01(op: Op, sizes: Sequence[Size], dtype: ir.DataType) -> Value:
    """Numbers in [0, 1): multiples of 2**-BITS, of which each is equally likely."""
    bits = BITS[dtype]
    if 0 in sizes:  # what ONNX Runtime's MatMul refuses
        numbers = op.Expand(op.const(0, dtype=wide(dtype)), op.shape(sizes))
    elif op.opset > LAST_OPSET:
        weights = op.const([2.0**-place for place in range(1, bits + 1)], dtype=wide(dtype))
        numbers = op.MatMul(op.Cast(coins(op, [*sizes, bits], 0.5), to=wide(dtype)), weights)
    else:
        numbers = _generated(op, "RandomUniform", sizes, wide(dtype))
        if dtype != wide(dtype):
            numbers = op.Mul(op.Floor(op.Mul(numbers, 2.0**bits)), 2.0**-bits)
    return op.typed(op.cast(numbers, dtype), sizes)


def normal01(op: Op, sizes: Sequence[Size], dtype: ir.DataType) -> Value:
    """Numbers of the standard normal distribution.

    Of two uniform ones each where there is no RandomNormal (Box and Muller, 1958): up to 5.7 in FLOAT.
    """
    if op.opset > LAST_OPSET:
        pairs = uniform01(op, [2, *sizes], wide(dtype))
        radius = op.Sqrt(op.Mul(op.Log(op.Sub(1.0, op.Gather(pairs, 0))), -2.0))
        numbers = op.Mul(radius, op.Cos(op.Mul(op.Gather(pairs, 1), 2 * pi)))
    else:
        numbers = _generated(op, "RandomNormal", sizes, wide(dtype))
    return op.typed(op.cast(numbers, dtype), sizes)


def _generated(op: Op, op_type: str, sizes: Sequence[Size], dtype: ir.DataType) -> Value:
    if sizes and not any(map(is_symbolic, sizes)):
        return op.call(op_type, shape=list(sizes), dtype=dtype)
    return op.call(f"{op_type}Like", op.Expand(0.0, op.shape(sizes)), dtype=dtype)
