"""Airy's function, in float64 inside: a table around 0, and elementary factors times tables on both sides."""

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

NEAR = 2.0
"""A table of x between -NEAR and NEAR; outside tables of (NEAR / |x|)^(3/2), the variable of the asymptotic series."""


def _length(t: Any) -> Any:
    return NEAR / mpmath.cbrt(t * t)


def _exponent(x: Any) -> Any:
    return 2 * mpmath.sqrt(x**3) / 3


def _decay(t: Any) -> Any:
    x = _length(t)
    return mpmath.airyai(x) * mpmath.exp(_exponent(x)) * mpmath.root(x, 4)


def _cosine_wave(t: Any) -> Any:
    x = _length(t)
    angle = _exponent(x) - mpmath.pi / 4
    return mpmath.root(x, 4) * (mpmath.airyai(-x) * mpmath.cos(angle) - mpmath.airybi(-x) * mpmath.sin(angle))


def _sine_wave(t: Any) -> Any:
    x = _length(t)
    angle = _exponent(x) - mpmath.pi / 4
    return mpmath.root(x, 4) * (mpmath.airyai(-x) * mpmath.sin(angle) + mpmath.airybi(-x) * mpmath.cos(angle))


MIDDLE = Table(mpmath.airyai, -NEAR, NEAR, pieces=16)
DECAY = Table(_decay, 0.0, 1.0, pieces=8)
COSINE = Table(_cosine_wave, 0.0, 1.0, pieces=8)
SINE = Table(_sine_wave, 0.0, 1.0, pieces=8)


@lowering(aten.special_airy_ai.default)
@in_double
def airy_ai(op: Op, x: Value) -> Value:
    """special_airy_ai(Tensor x) -> Tensor

    To the right exp(-z) x^(-1/4) times a table, to the left |x|^(-1/4) times a cosine and a sine of z - pi/4 with a
    table each, where z = 2/3 |x|^(3/2) (NIST DLMF 9.7.5, 9.7.9). The tables are good to 1e-13 of the largest value near
    by.
    """
    length = op.Max(op.Abs(x), op.const(NEAR, like=x))
    root = op.Sqrt(length)
    power = op.Mul(length, root)
    exponent, t = op.Mul(power, 2 / 3), op.Div(NEAR**1.5, power)
    right = op.Mul(op.Exp(op.Neg(exponent)), evaluate(op, DECAY, t))
    angle = op.Sub(exponent, math.pi / 4)
    cosine = op.Mul(op.Cos(angle), evaluate(op, COSINE, t))
    left = op.Add(cosine, op.Mul(op.Sin(angle), evaluate(op, SINE, t)))
    outside = op.Div(op.Where(op.Less(x, 0), left, right), op.Sqrt(root))
    return op.Where(op.Greater(op.Abs(x), NEAR), outside, evaluate(op, MIDDLE, x))
