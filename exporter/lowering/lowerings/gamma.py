"""The gamma function's relatives, in float64 inside: float32 results are correctly rounded but for ties."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.precision import in_double

aten = torch.ops.aten
prims = torch.ops.prims

LARGE = 8
"""From here on the asymptotic series are good to 1e-15; smaller arguments are shifted up by as much."""

LOG_GAMMA = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
"""Stirling's series: B(2k) / (2k (2k - 1)), the coefficients of 1 / x^(2k - 1) (NIST DLMF 5.11.1)."""

DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
"""B(2k) / 2k, the coefficients of -1 / x^2k in the series of digamma (NIST DLMF 5.11.2)."""

EULER_MACLAURIN = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
)
"""B(2k) / (2k)!, the coefficients of the Euler-Maclaurin formula (NIST DLMF 2.10.1)."""

ZETA_TERMS = 10
"""Terms of zeta that are added one by one before the formula takes the rest."""


@lowering(aten.lgamma.default, prims.lgamma.default)
@in_double
def lgamma(op: Op, x: Value) -> Value:
    """lgamma(Tensor self) -> Tensor

    Stirling's series; below 1/2 by reflection, log(pi / |sin(pi x)|) - lgamma(1 - x).
    """
    reflected = op.Less(x, 0.5)
    y = op.Where(reflected, op.Sub(1, x), x)
    result = lgamma_of_positive(op, y)
    sine = op.Abs(op.Sin(op.Mul(_from_integer(op, x), math.pi)))
    result = op.Where(reflected, op.Sub(op.Log(op.Div(math.pi, sine)), result), result)
    return op.Where(op.IsInf(x), math.inf, result)


def lgamma_of_positive(op: Op, x: Value) -> Value:
    large, shifted, (q0, q1, q2, q3) = _shifted(op, x)
    log_product = op.Log(op.Mul(op.Mul(q0, q1), op.Mul(q2, q3)))
    main = op.Mul(op.Sub(large, 0.5), op.Sub(op.Log(large), 1))
    rest = op.Div(_polynomial(op, LOG_GAMMA, _inverse_square(op, large)), large)
    stirling = op.Add(op.Add(main, rest), 0.5 * math.log(2 * math.pi) - 0.5)
    return op.Sub(stirling, op.Where(shifted, log_product, 0))


def _shifted(op: Op, x: Value) -> tuple[Value, Value, Sequence[Value]]:
    """(x or x + 8, whether shifted, products): the products are x(x+7), (x+1)(x+6), (x+2)(x+5) and (x+3)(x+4)."""
    shifted = op.Less(x, LARGE)
    first = op.Mul(x, op.Add(x, 7))
    products = [first, *(op.Add(first, constant) for constant in (6, 10, 12))]
    return op.Where(shifted, op.Add(x, LARGE), x), shifted, products


def _from_integer(op: Op, x: Value) -> Value:
    """x less the nearest integer, exactly: sines and tangents of pi x have no other argument."""
    return op.Sub(x, op.Round(x))


def _inverse_square(op: Op, x: Value) -> Value:
    return op.Reciprocal(op.Mul(x, x))


def _polynomial(op: Op, coefficients: Sequence[float], x: Value) -> Value:
    """Horner's rule, coefficients from the constant on."""
    *lower, highest = coefficients
    result: Any = highest
    for coefficient in reversed(lower):
        result = op.Add(op.Mul(x, result), coefficient)
    return result


@lowering(aten.digamma.default, prims.digamma.default)
@in_double
def digamma(op: Op, x: Value) -> Value:
    """digamma(Tensor self) -> Tensor

    The asymptotic series; below 1/2 by reflection, digamma(1 - x) - pi / tan(pi x). Negative integers give NaN, and
    zeros the infinity of the other sign.
    """
    reflected = op.Less(x, 0.5)
    result = _digamma_of_positive(op, op.Where(reflected, op.Sub(1, x), x))
    angle = op.Mul(_from_integer(op, x), math.pi)
    mirrored = op.Sub(result, op.Div(op.Mul(op.Cos(angle), math.pi), op.Sin(angle)))
    mirrored = op.Where(op.IsInf(mirrored), math.nan, mirrored)
    mirrored = op.Where(op.Equal(x, 0), op.Neg(op.Reciprocal(x)), mirrored)
    return op.Where(reflected, mirrored, result)


def _digamma_of_positive(op: Op, x: Value) -> Value:
    """The shift is the sum of 1 / (x + k), in pairs with equal numerators: 1/x + 1/(x+7) = (2x+7) / (x (x+7))."""
    large, shifted, products = _shifted(op, x)
    shift = op.Mul(op.Add(op.Mul(x, 2), 7), op.Sum(*(op.Reciprocal(product) for product in products)))
    square = _inverse_square(op, large)
    series = op.Add(op.Div(0.5, large), op.Mul(square, _polynomial(op, DIGAMMA, square)))
    return op.Sub(op.Sub(op.Log(large), series), op.Where(shifted, shift, 0))


@lowering(aten.polygamma.default)
@in_double
def polygamma(op: Op, n: int, x: Value) -> Value:
    """polygamma(int n, Tensor self) -> Tensor

    (-1)^(n+1) n! zeta(n + 1, x).
    """
    if n == 0:
        return digamma.function(op, x)
    factor = math.factorial(n) * (-1.0) ** (n + 1)
    result = op.Mul(_zeta(op, op.const(n + 1.0, like=x), x), factor)
    return op.Where(op.Equal(x, math.inf), 0, result) if n == 1 else result  # PyTorch's sums of others have no limit


@lowering(aten.special_zeta.default, aten.special_zeta.other_scalar, aten.special_zeta.self_scalar, prims.zeta.default)
@in_double
def zeta(op: Op, x: Value | Scalar, other: Value | Scalar) -> Value:
    """special_zeta(Tensor self, Tensor other) -> Tensor

    The Hurwitz zeta function, the sum of (other + k)^-self over k from 0: infinite where self is 1, and NaN below.
    """
    s, q = op.const(x, dtype=ir.DataType.DOUBLE), op.const(other, dtype=ir.DataType.DOUBLE)
    result = op.Where(op.Equal(s, 1), math.inf, _zeta(op, s, q))
    return op.Where(op.Less(s, 1), math.nan, result)


def _zeta(op: Op, s: Value, q: Value) -> Value:
    """For q below 0 the sum is split where it passes 0, at the fraction f of q.

    The terms before it are a difference of sums of (1 - f + k)^-s with the sign (-1)^s, which is a real number only for
    integers s. There are poles at the integers.
    """
    floor = op.Floor(q)
    fraction = op.Sub(q, floor)
    positive = op.Greater(q, 0)
    upward = _zeta_of_positive(op, s, op.Where(positive, q, fraction))
    mirror = op.Sub(1, fraction)
    before = op.Sub(_zeta_of_positive(op, s, mirror), _zeta_of_positive(op, s, op.Sub(mirror, floor)))
    parity = op.Mod(s, 2, fmod=1)
    sign = op.Where(op.Equal(parity, 0), 1, op.Where(op.Equal(parity, 1), op.const(-1.0, like=s), math.nan))
    below = op.Where(op.Equal(fraction, 0), math.inf, op.Add(upward, op.Mul(sign, before)))
    return op.Where(positive, upward, below)


def _zeta_of_positive(op: Op, s: Value, q: Value) -> Value:
    """The first terms, then the Euler-Maclaurin formula, whose terms are factored out one from the next."""
    rank = len(op.out.sizes)
    steps = np.arange(ZETA_TERMS, dtype=np.float64).reshape(ZETA_TERMS, *[1] * rank)
    head = op.ReduceSum(op.Pow(op.Add(q, op.const(steps)), op.Neg(s)), [0], keepdims=0)
    far = op.Add(q, ZETA_TERMS)
    square = _inverse_square(op, far)
    series: Any = 1.0
    for k in reversed(range(1, len(EULER_MACLAURIN))):
        ratio = EULER_MACLAURIN[k] / EULER_MACLAURIN[k - 1]
        rising = op.Mul(op.Add(s, 2 * k - 1), op.Add(s, 2 * k))
        series = op.Add(op.Mul(op.Mul(op.Mul(rising, square), ratio), series), 1)
    bracket = op.Add(op.Div(far, op.Sub(s, 1)), op.Add(op.Mul(op.Div(op.Mul(s, 1 / 12), far), series), 0.5))
    return op.Add(head, op.Mul(op.Pow(far, op.Neg(s)), bracket))
