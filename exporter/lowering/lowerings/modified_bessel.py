"""Modified Bessel functions of orders 0 and 1, in float64 inside.

I is one table, once what it grows by is taken out of it. K is a table near 0, without its logarithm and its pole, and
beyond it what it decays by times a table over the reciprocal of x (NIST DLMF 10.31, 10.40). The tables are good to
1e-14, so that float32 results are correctly rounded but for ties.
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

SCALE = 4.0
"""I is a table of SCALE / (SCALE + x)."""

NEAR = 2.0
"""K is a table of x up to here, and of NEAR / x beyond."""

ORDERS = (0, 1)


def _growth(order: int) -> Function:
    def function(t: Any) -> Any:
        x = SCALE / t - SCALE
        return mpmath.besseli(order, x) / x**order * mpmath.exp(-x) * (SCALE + x) ** (order + mpmath.mpf(1) / 2)

    return function


def _regular_i(order: int) -> Function:
    """I without the factor x^order."""
    return lambda x: mpmath.besseli(order, x) / x**order


def _regular_k(order: int) -> Function:
    """K without its logarithm and its pole, and without the factor x^order."""

    def function(x: Any) -> Any:
        logarithm = (-1) ** order * mpmath.log(x / 2) * mpmath.besseli(order, x)
        return (mpmath.besselk(order, x) + logarithm - order / x) / x**order

    return function


def _decay(order: int) -> Function:
    def function(t: Any) -> Any:
        x = NEAR / t
        return mpmath.besselk(order, x) * mpmath.exp(x) * mpmath.sqrt(x)

    return function


I_SCALED = tuple(Table(_growth(order), 0.0, 1.0) for order in ORDERS)
I_NEAR = tuple(Table(_regular_i(order), 0.0, NEAR, pieces=8) for order in ORDERS)
K_NEAR = tuple(Table(_regular_k(order), 0.0, NEAR, pieces=8) for order in ORDERS)
K_FAR = tuple(Table(_decay(order), 0.0, 1.0, pieces=8) for order in ORDERS)


@lowering(aten.i0.default, aten.special_modified_bessel_i0.default, prims.bessel_i0.default)
@in_double
def i0(op: Op, x: Value) -> Value:
    """i0(Tensor self) -> Tensor"""
    return op.Mul(op.Exp(op.Abs(x)), _scaled_i0(op, x))


@lowering(aten.special_i0e.default, prims.bessel_i0e.default)
@in_double
def i0e(op: Op, x: Value) -> Value:
    """special_i0e(Tensor self) -> Tensor"""
    return _scaled_i0(op, x)


@lowering(aten.special_i1.default, aten.special_modified_bessel_i1.default, prims.bessel_i1.default)
@in_double
def i1(op: Op, x: Value) -> Value:
    """special_i1(Tensor self) -> Tensor"""
    return op.Mul(op.Exp(op.Abs(x)), _scaled_i1(op, x))


@lowering(aten.special_i1e.default, prims.bessel_i1e.default)
@in_double
def i1e(op: Op, x: Value) -> Value:
    """special_i1e(Tensor self) -> Tensor"""
    return _scaled_i1(op, x)


def _scaled_i0(op: Op, x: Value) -> Value:
    shifted = op.Add(op.Abs(x), SCALE)
    return op.Div(evaluate(op, I_SCALED[0], op.Div(SCALE, shifted)), op.Sqrt(shifted))


def _scaled_i1(op: Op, x: Value) -> Value:
    shifted = op.Add(op.Abs(x), SCALE)
    slope = op.Div(evaluate(op, I_SCALED[1], op.Div(SCALE, shifted)), op.Sqrt(shifted))
    return op.Where(op.IsInf(x), 0, op.Mul(op.Div(x, shifted), slope))


@lowering(aten.special_modified_bessel_k0.default)
@in_double
def modified_bessel_k0(op: Op, x: Value) -> Value:
    """special_modified_bessel_k0(Tensor self) -> Tensor"""
    return op.Where(op.Greater(x, NEAR), op.Mul(_far_k(op, 0, x), op.Exp(op.Neg(x))), _near_k0(op, x))


@lowering(aten.special_scaled_modified_bessel_k0.default)
@in_double
def scaled_modified_bessel_k0(op: Op, x: Value) -> Value:
    """special_scaled_modified_bessel_k0(Tensor x) -> Tensor"""
    return op.Where(op.Greater(x, NEAR), _far_k(op, 0, x), op.Mul(_near_k0(op, x), op.Exp(x)))


@lowering(aten.special_modified_bessel_k1.default)
@in_double
def modified_bessel_k1(op: Op, x: Value) -> Value:
    """special_modified_bessel_k1(Tensor self) -> Tensor"""
    return op.Where(op.Greater(x, NEAR), op.Mul(_far_k(op, 1, x), op.Exp(op.Neg(x))), _near_k1(op, x))


@lowering(aten.special_scaled_modified_bessel_k1.default)
@in_double
def scaled_modified_bessel_k1(op: Op, x: Value) -> Value:
    """special_scaled_modified_bessel_k1(Tensor x) -> Tensor"""
    return op.Where(op.Greater(x, NEAR), _far_k(op, 1, x), op.Mul(_near_k1(op, x), op.Exp(x)))


def _near_k0(op: Op, x: Value) -> Value:
    """Infinite at 0 by the logarithm, which is NaN below it."""
    logarithm = op.Mul(op.Log(op.Mul(x, 0.5)), evaluate(op, I_NEAR[0], x))
    return op.Sub(evaluate(op, K_NEAR[0], x), logarithm)


def _near_k1(op: Op, x: Value) -> Value:
    logarithm = op.Mul(op.Log(op.Mul(x, 0.5)), evaluate(op, I_NEAR[1], x))
    regular = op.Mul(x, op.Add(evaluate(op, K_NEAR[1], x), logarithm))
    return op.Where(op.Equal(x, 0), math.inf, op.Add(op.Reciprocal(x), regular))


def _far_k(op: Op, order: int, x: Value) -> Value:
    """K times exp(x)."""
    return op.Div(evaluate(op, K_FAR[order], op.Div(NEAR, x)), op.Sqrt(x))
