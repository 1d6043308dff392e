"""Bessel functions of orders 0 and 1, in float64 inside.

Each is a table near 0, and beyond it elementary factors times a table over the reciprocal of x, where what is left is
smooth up to infinity (NIST DLMF 10.17). The tables are good to 1e-13 of the function's largest value near
by, so that float32 results are correctly rounded but for ties and for what is close to a zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.piecewise import Table, evaluate
from fxport.exporter.lowering.lowerings.precision import in_double

aten = torch.ops.aten
prims = torch.ops.prims

Function = Callable[[Any], Any]

NEAR = 8.0
"""J and Y are tables of x up to here, and of NEAR / x beyond."""

ORDERS = (0, 1)


def _regular(kind: Callable[..., Any], order: int) -> Function:
    """A function that is x^order times an even one, without that factor."""
    return lambda x: kind(order, x) / x**order


def _regular_y(order: int) -> Function:
    """Y without its logarithm and its pole, and without the factor x^order."""

    def function(x: Any) -> Any:
        singular = mpmath.log(x) * mpmath.besselj(order, x) - order / x
        return (mpmath.bessely(order, x) - 2 / mpmath.pi * singular) / x**order

    return function


def _wave(order: int, *, in_phase: bool) -> Function:
    """The amplitude of J's cosine and Y's sine of x - (2 order + 1) pi / 4, or that of -J's sine and Y's cosine."""

    def function(t: Any) -> Any:
        x = NEAR / t
        angle = x - (2 * order + 1) * mpmath.pi / 4
        j, y = mpmath.besselj(order, x), mpmath.bessely(order, x)
        cos, sin = mpmath.cos(angle), mpmath.sin(angle)
        return mpmath.sqrt(mpmath.pi * x / 2) * (j * cos + y * sin if in_phase else y * cos - j * sin)

    return function


J_NEAR = tuple(Table(_regular(mpmath.besselj, order), 0.0, NEAR, pieces=16) for order in ORDERS)
Y_NEAR = tuple(Table(_regular_y(order), 0.0, NEAR, pieces=16) for order in ORDERS)
IN_PHASE = tuple(Table(_wave(order, in_phase=True), 0.0, 1.0, pieces=8) for order in ORDERS)
OUT_OF_PHASE = tuple(Table(_wave(order, in_phase=False), 0.0, 1.0, pieces=8) for order in ORDERS)


@lowering(aten.special_bessel_j0.default, prims.bessel_j0.default)
@in_double
def bessel_j0(op: Op, x: Value) -> Value:
    """special_bessel_j0(Tensor self) -> Tensor"""
    x = op.Abs(x)
    far, _ = _waves(op, 0, x)
    return op.Where(op.Less(x, NEAR), evaluate(op, J_NEAR[0], x), far)


@lowering(aten.special_bessel_j1.default, prims.bessel_j1.default)
@in_double
def bessel_j1(op: Op, x: Value) -> Value:
    """special_bessel_j1(Tensor self) -> Tensor"""
    length = op.Abs(x)
    far, _ = _waves(op, 1, length)
    near = op.Mul(x, evaluate(op, J_NEAR[1], length))
    return op.Where(op.Less(length, NEAR), near, op.Mul(op.Sign(x), far))


@lowering(aten.special_bessel_y0.default)
@in_double
def bessel_y0(op: Op, x: Value) -> Value:
    """special_bessel_y0(Tensor self) -> Tensor"""
    _, far = _waves(op, 0, x)
    logarithm = op.Mul(op.Mul(op.Log(x), 2 / math.pi), evaluate(op, J_NEAR[0], x))
    near = op.Add(logarithm, evaluate(op, Y_NEAR[0], x))
    return op.Where(op.GreaterOrEqual(x, NEAR), far, near)


@lowering(aten.special_bessel_y1.default)
@in_double
def bessel_y1(op: Op, x: Value) -> Value:
    """special_bessel_y1(Tensor self) -> Tensor"""
    _, far = _waves(op, 1, x)
    logarithm = op.Mul(op.Mul(op.Log(x), 2 / math.pi), evaluate(op, J_NEAR[1], x))
    regular = op.Mul(x, op.Add(logarithm, evaluate(op, Y_NEAR[1], x)))
    near = op.Where(op.Equal(x, 0), -math.inf, op.Sub(regular, op.Div(2 / math.pi, x)))
    return op.Where(op.GreaterOrEqual(x, NEAR), far, near)


def _waves(op: Op, order: int, x: Value) -> tuple[Value, Value]:
    """J and Y far from 0."""
    t = op.Div(NEAR, x)
    in_phase, out_of_phase = evaluate(op, IN_PHASE[order], t), evaluate(op, OUT_OF_PHASE[order], t)
    angle = op.Sub(x, (2 * order + 1) * math.pi / 4)
    cos, sin = op.Cos(angle), op.Sin(angle)
    height = op.Sqrt(op.Div(2 / math.pi, x))
    j = op.Mul(height, op.Sub(op.Mul(in_phase, cos), op.Mul(out_of_phase, sin)))
    y = op.Mul(height, op.Add(op.Mul(in_phase, sin), op.Mul(out_of_phase, cos)))
    return j, y


@lowering(aten.special_spherical_bessel_j0.default, prims.spherical_bessel_j0.default)
@in_double
def spherical_bessel_j0(op: Op, x: Value) -> Value:
    """special_spherical_bessel_j0(Tensor x) -> Tensor

    sin(x) / x.
    """
    ratio = op.Where(op.Equal(x, 0), 1, op.Div(op.Sin(x), x))
    return op.Where(op.IsInf(x), 0, ratio)
