"""Powers, exponentials and logarithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.dtypes import is_float
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.signs import with_sign
from fxport.exporter.lowering.lowerings.loops import any_of, repeat
from fxport.exporter.lowering.lowerings.precision import in_double, in_float
from fxport.fx_passes import cube_root  # noqa: F401  # registers the op

aten = torch.ops.aten
prims = torch.ops.prims
fxport = torch.ops.fxport

LN2 = 0.6931471805599453
LN10 = 2.302585092994046

POWERS: Mapping[float, Callable[[Op, Value], Value]] = {
    -2.0: lambda op, x: op.Reciprocal(op.Mul(x, x)),
    -1.0: lambda op, x: op.Reciprocal(x),
    -0.5: lambda op, x: op.Reciprocal(op.Sqrt(x)),
    0.5: lambda op, x: op.Sqrt(x),
    1.0: lambda op, x: x,
}
"""Exponents that PyTorch computes so as well. Squares and cubes stay Pow: ONNX Runtime multiplies there, and looks for
Pow when it fuses normalizations."""

EXPONENT_BITS = 63
"""Bits of the largest exponent."""


@lowering(aten.pow.Tensor_Scalar)
def pow_scalar(op: Op, x: Value, exponent: Scalar) -> Value:
    """pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor"""
    if is_float(x.dtype) and isinstance(exponent, (int, float)) and exponent in POWERS:
        return POWERS[exponent](op, x)
    if is_float(x.dtype) or not isinstance(exponent, int):
        return pow_tensor(op, x, op.const(exponent, like=x))
    return _integer_power(op, x, exponent)


@lowering(aten.pow.Tensor_Tensor, aten.pow.Scalar, prims.pow.default)
def pow_tensor(op: Op, x: Value | Scalar, exponent: Value) -> Value:
    """pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor

    ONNX Runtime computes Pow of integers in floats, which has no room for INT64: there it is squared and multiplied
    bit by bit of the exponent, as long as one has bits left, and wraps as PyTorch does. A negative exponent gives 0,
    and of 1 and -1 what they are.
    """
    x = op.const(x, dtype=op.out.dtype)
    if is_float(x.dtype):
        return op.Pow(x, exponent)

    def step(_: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
        power, left, result = states
        is_set = op.Not(op.Equal(op.BitwiseAnd(left, 1), 0))
        left = op.Div(left, 2)
        after = op.Where(is_set, op.Mul(result, power), result)
        return any_of(op, op.Greater(left, 0)), (op.Mul(power, power), left, after)

    states = (x, op.cast(exponent, ir.DataType.INT64), op.const(1, like=x))
    *_, result = repeat(op, EXPONENT_BITS, states, step)
    is_unit = op.Equal(op.Abs(x), 1)
    return op.Where(op.Or(op.GreaterOrEqual(exponent, 0), is_unit), result, 0)


def _integer_power(op: Op, x: Value, exponent: int) -> Value:
    """By squaring. PyTorch refuses negative exponents of integers."""
    result: Value | None = None
    while exponent:
        if exponent & 1:
            result = x if result is None else op.Mul(result, x)
        exponent >>= 1
        if exponent:
            x = op.Mul(x, x)
    return op.Pow(x, 0) if result is None else result


@lowering(prims.cbrt.default, fxport.cbrt.default)
@in_double
def cbrt(op: Op, x: Value) -> Value:
    """cbrt(Tensor self) -> Tensor

    ONNX's Pow takes no roots of negative numbers, and misses that of 64 by the last bit.
    """
    size = op.Abs(x)
    root = op.Pow(size, 1 / 3)
    whole = op.Round(root)
    is_cube = op.Equal(op.Mul(op.Mul(whole, whole), whole), size)
    return op.Mul(op.Sign(x), op.Where(is_cube, whole, root))


@lowering(aten.exp2.default, prims.exp2.default)
def exp2(op: Op, x: Value) -> Value:
    """exp2(Tensor self) -> Tensor

    A power of 2: exp(x * ln 2) would multiply the rounding of the product by x.
    """
    return op.Pow(op.const(2.0, like=x), x)


@lowering(aten.expm1.default, prims.expm1.default)
@in_float
def expm1(op: Op, x: Value) -> Value:
    """expm1(Tensor self) -> Tensor

    (exp(x) + 1) * tanh(x / 2), which has no cancellation at 0 and the right limits; within 4 ulp.
    """
    return op.Mul(op.Add(op.Exp(x), 1), op.Tanh(op.Mul(x, 0.5)))


@lowering(aten.log1p.default, prims.log1p.default)
@in_float
def log1p(op: Op, x: Value) -> Value:
    """log1p(Tensor self) -> Tensor

    Within 2 ulp; see `log1p_parts`. At -1 and infinity the correction is not defined, and the logarithm is right.
    -0 stays -0 in float64, where numbers of Python are computed; in float32 that would take half as much time again.
    """
    log, lost = log1p_parts(op, x)
    sum_ = op.Where(op.IsNaN(lost), log, op.Add(log, lost))
    return with_sign(op, sum_, x) if x.dtype == ir.DataType.DOUBLE else sum_


def log1p_parts(op: Op, x: Value) -> tuple[Value, Value]:
    """With u = 1 + x rounded: log(u), and the correction for what the rounding took away, (x - (u - 1)) / u.

    That is the series around u to the first term; the next is below the precision.
    """
    u = op.Add(x, 1)
    return op.Log(u), op.Div(op.Sub(x, op.Sub(u, 1)), u)


@lowering(aten.log2.default, prims.log2.default)
@in_double
def log2(op: Op, x: Value) -> Value:
    """log2(Tensor self) -> Tensor

    In double, and exact at powers of two: models take the floor of it, and the rounded quotient of two float32
    logarithms misses one power of two in five.
    """
    return _exact_at_powers(op, x, 2.0, op.Div(op.Log(x), LN2))


@lowering(aten.log10.default, prims.log10.default)
@in_double
def log10(op: Op, x: Value) -> Value:
    """log10(Tensor self) -> Tensor

    In double, and exact at powers of ten, as `log2` is at those of two.
    """
    return _exact_at_powers(op, x, 10.0, op.Div(op.Log(x), LN10))


def _exact_at_powers(op: Op, x: Value, base: float, logarithm: Value) -> Value:
    """The logarithm of a double, which is whole where `x` is a power of the base.

    Of a value that comes from a narrower type, the rounding at the end takes the error away.
    """
    if op.out.dtype != ir.DataType.DOUBLE:
        return logarithm
    whole = op.Round(logarithm)
    return op.Where(op.Equal(op.Pow(op.const(np.asarray(base)), whole), x), whole, logarithm)


@lowering(aten.logaddexp.default)
@in_float
def logaddexp(op: Op, x: Value, other: Value) -> Value:
    """logaddexp(Tensor self, Tensor other) -> Tensor

    By the larger one and their distance, so that nothing overflows.
    """
    log, lost = log1p_parts(op, op.Exp(closeness(op, x, other)))
    return op.Add(op.Max(x, other), op.Add(log, lost))


@lowering(aten.logaddexp2.default)
@in_float
def logaddexp2(op: Op, x: Value, other: Value) -> Value:
    """logaddexp2(Tensor self, Tensor other) -> Tensor"""
    log, lost = log1p_parts(op, op.Exp(op.Mul(closeness(op, x, other), LN2)))
    return op.Add(op.Max(x, other), op.Div(op.Add(log, lost), LN2))


def closeness(op: Op, x: Value, other: Value) -> Value:
    """Minus the distance of two values; 0 for equal infinities."""
    return op.Where(op.Equal(x, other), 0, op.Neg(op.Abs(op.Sub(x, other))))
