"""Orthogonal polynomials by their recurrences, in float64 inside (NIST DLMF 18.9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.registry import Lowering, lowering
from fxport.exporter.lowering.lowerings.loops import any_of, repeat
from fxport.exporter.lowering.lowerings.precision import in_double

aten = torch.ops.aten

DOUBLE, INT64 = ir.DataType.DOUBLE, ir.DataType.INT64
HIGHEST = 2**31 - 1
"""Turns that a loop has at most; it ends with the highest degree asked for."""


@dataclass(frozen=True, slots=True)
class Family:
    """p(0) = 1, p(1) = `first`(x), and p(k + 1) = `following`(x, k, p(k), p(k - 1))."""

    first: Callable[[Op, Value], Value]
    following: Callable[[Op, Value, Value, Value, Value], Value]


def _twice_less(op: Op, x: Value, k: Value, p: Value, before: Value) -> Value:
    """2x p(k) - p(k - 1)."""
    return op.Sub(op.Mul(op.Mul(x, 2), p), before)


def _hermite_h(op: Op, x: Value, k: Value, p: Value, before: Value) -> Value:
    return op.Mul(_hermite_he(op, x, k, p, before), 2)


def _hermite_he(op: Op, x: Value, k: Value, p: Value, before: Value) -> Value:
    return op.Sub(op.Mul(x, p), op.Mul(k, before))


def _laguerre(op: Op, x: Value, k: Value, p: Value, before: Value) -> Value:
    factor = op.Sub(op.Add(op.Mul(k, 2), 1), x)
    return op.Div(op.Sub(op.Mul(factor, p), op.Mul(k, before)), op.Add(k, 1))


def _legendre(op: Op, x: Value, k: Value, p: Value, before: Value) -> Value:
    factor = op.Mul(op.Add(op.Mul(k, 2), 1), x)
    return op.Div(op.Sub(op.Mul(factor, p), op.Mul(k, before)), op.Add(k, 1))


T = Family(lambda op, x: x, _twice_less)
U = Family(lambda op, x: op.Mul(x, 2), _twice_less)
V = Family(lambda op, x: op.Sub(op.Mul(x, 2), 1), _twice_less)
W = Family(lambda op, x: op.Add(op.Mul(x, 2), 1), _twice_less)

FAMILIES = {
    aten.special_chebyshev_polynomial_t: T,
    aten.special_chebyshev_polynomial_u: U,
    aten.special_chebyshev_polynomial_v: V,
    aten.special_chebyshev_polynomial_w: W,
    aten.special_hermite_polynomial_h: Family(lambda op, x: op.Mul(x, 2), _hermite_h),
    aten.special_hermite_polynomial_he: Family(lambda op, x: x, _hermite_he),
    aten.special_laguerre_polynomial_l: Family(lambda op, x: op.Sub(1, x), _laguerre),
    aten.special_legendre_polynomial_p: Family(lambda op, x: x, _legendre),
}

SHIFTED = {
    aten.special_shifted_chebyshev_polynomial_t: T,
    aten.special_shifted_chebyshev_polynomial_u: U,
    aten.special_shifted_chebyshev_polynomial_v: V,
    aten.special_shifted_chebyshev_polynomial_w: W,
}
"""The families of 2x - 1."""


def _polynomial(op: Op, family: Family, x: Value, n: Value) -> Value:
    """The polynomial of each element's degree, a whole number; 0 where that is negative."""
    degree = op.Cast(n, to=INT64)
    one = op.const(1.0, dtype=DOUBLE)
    first = family.first(op, x)
    start = op.Where(op.Equal(degree, 1), first, op.Where(op.Equal(degree, 0), one, op.const(0.0, dtype=DOUBLE)))

    def step(turn: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
        before, p, result = states
        reached = op.Add(turn, 2)
        after = family.following(op, x, op.Cast(op.Add(turn, 1), to=DOUBLE), p, before)
        return any_of(op, op.Greater(degree, reached)), (p, after, op.Where(op.Equal(degree, reached), after, result))

    return repeat(op, HIGHEST, (one, first, start), step)[2]


def _lowering(packet: Any, family: Family, shifted: bool) -> Lowering:
    @in_double
    def function(op: Op, x: Value | Scalar, n: Value | Scalar) -> Value:
        place = op.const(x, dtype=DOUBLE)
        place = op.Sub(op.Mul(place, 2), 1) if shifted else place
        return _polynomial(op, family, place, op.const(n, dtype=DOUBLE))

    schema = packet.default._schema
    function.__name__ = schema.name.removeprefix("aten::")
    function.__doc__ = str(schema).removeprefix("aten::")
    return lowering(packet.default, packet.x_scalar, packet.n_scalar)(function)


LOWERINGS = (
    *(_lowering(packet, family, shifted=False) for packet, family in FAMILIES.items()),
    *(_lowering(packet, family, shifted=True) for packet, family in SHIFTED.items()),
)
