"""The error function's relatives: its complement, scaled, and its inverse.

All are computed in float64 from tables good to 1e-13, so that float32 results are correctly rounded but for ties.
"""

from __future__ import annotations

import math
from typing import Any

import mpmath
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.piecewise import Table, evaluate
from fxport.exporter.lowering.lowerings.precision import in_double

aten = torch.ops.aten
prims = torch.ops.prims

SCALE = 4.0
"""erfcx is tabulated over t = SCALE / (SCALE + x), which takes [0, inf] to [1, 0] (Johnson, Faddeeva package, 2012)."""

FURTHEST = 27.0
"""Of sqrt(-log(1 - y²)): reached where 1 - y² is the smallest float64."""


def _scaled_complement(t: Any) -> Any:
    x = SCALE / t - SCALE
    return mpmath.exp(x * x) * mpmath.erfc(x) / t


def _inverse(s: Any) -> Any:
    """erfinv(y) / y where s = sqrt(-log(1 - y²)). Near 1, where y has no digits left, Newton's method on log erfc."""
    y = mpmath.sqrt(-mpmath.expm1(-s * s))
    if s < 1:
        return mpmath.erfinv(y) / y
    complement = mpmath.exp(-s * s) / (1 + y)
    x = s
    for _ in range(6):
        tail = mpmath.erfc(x)
        x += mpmath.log(tail / complement) * tail * mpmath.exp(x * x) * mpmath.sqrt(mpmath.pi) / 2
    return x / y


SCALED_COMPLEMENT = Table(_scaled_complement, 0.0, 1.0)
INVERSE = Table(_inverse, 0.0, FURTHEST, degree=12)


@lowering(aten.erfc.default, prims.erfc.default)
@in_double
def erfc(op: Op, x: Value) -> Value:
    """erfc(Tensor self) -> Tensor

    exp(-x²) erfcx(|x|), and 2 less that where x is negative.
    """
    tail = op.Mul(op.Exp(op.Neg(op.Mul(x, x))), _erfcx_of_positive(op, op.Abs(x)))
    return op.Where(op.Less(x, 0), op.Sub(2, tail), tail)


@lowering(aten.special_erfcx.default, prims.erfcx.default)
@in_double
def erfcx(op: Op, x: Value) -> Value:
    """special_erfcx(Tensor self) -> Tensor

    exp(x²) erfc(x).
    """
    tail = _erfcx_of_positive(op, op.Abs(x))
    return op.Where(op.Less(x, 0), op.Sub(op.Mul(op.Exp(op.Mul(x, x)), 2), tail), tail)


def _erfcx_of_positive(op: Op, x: Value) -> Value:
    t = op.Div(SCALE, op.Add(x, SCALE))
    return op.Mul(t, evaluate(op, SCALED_COMPLEMENT, t))


@lowering(aten.erfinv.default, prims.erf_inv.default)
@in_double
def erfinv(op: Op, x: Value) -> Value:
    """erfinv(Tensor self) -> Tensor

    x times a function of sqrt(-log(1 - x²)) that is almost straight (Giles, Approximating the erfinv function, 2011).
    """
    return _inverted(op, x, op.Mul(op.Sub(1, x), op.Add(x, 1)))


@lowering(aten.special_ndtri.default, prims.ndtri.default)
@in_double
def ndtri(op: Op, x: Value) -> Value:
    """special_ndtri(Tensor self) -> Tensor

    sqrt(2) erfinv(2x - 1), where 1 - (2x - 1)² is 4x (1 - x) without the rounding near 0.
    """
    square = op.Mul(op.Mul(x, 4), op.Sub(1, x))
    return op.Mul(_inverted(op, op.Sub(op.Mul(x, 2), 1), square), math.sqrt(2))


def _inverted(op: Op, y: Value, complement: Value) -> Value:
    """erfinv(y) given 1 - y²: infinite where that is 0, NaN where it is negative."""
    distance = op.Sqrt(op.Neg(op.Log(complement)))
    return op.Mul(y, op.Where(op.Equal(complement, 0), math.inf, evaluate(op, INVERSE, distance)))
