"""The regularized incomplete gamma functions, in float64 inside."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.gamma import lgamma_of_positive
from fxport.exporter.lowering.lowerings.loops import any_of, repeat
from fxport.exporter.lowering.lowerings.precision import in_double

aten = torch.ops.aten
prims = torch.ops.prims

PRECISION = 1e-15
LONGEST = 5000
"""Turns after which series and fraction end. For x near a they need about 5 sqrt(a), so this does for a up to 10^6."""


@lowering(aten.igamma.default, prims.igamma.default)
@in_double
def igamma(op: Op, x: Value, other: Value) -> Value:
    """igamma(Tensor self, Tensor other) -> Tensor

    The lower function P(self, other); see `_lower_and_upper`.
    """
    return _lower_and_upper(op, x, other)[0]


@lowering(aten.igammac.default, prims.igammac.default)
@in_double
def igammac(op: Op, x: Value, other: Value) -> Value:
    """igammac(Tensor self, Tensor other) -> Tensor

    The upper function Q(self, other) = 1 - P.
    """
    return _lower_and_upper(op, x, other)[1]


def _lower_and_upper(op: Op, a: Value, x: Value) -> tuple[Value, Value]:
    """P by its series where x is less than a or 1, else Q by its continued fraction; the other is 1 less that.

    What loops have no part in is set apart: x at 0 and infinity, a at 0 and infinity, NaN for negative arguments and
    where both are 0 or both infinite.
    """
    zero, infinite = op.Equal(x, 0), op.IsInf(x)
    point, certain = op.Equal(a, 0), op.IsInf(a)
    plain = op.Not(op.Or(op.Or(zero, infinite), op.Or(point, certain)))
    a_inside, x_inside = op.Where(plain, a, 1), op.Where(plain, x, 1)
    small = op.Or(op.LessOrEqual(x_inside, 1), op.Less(x_inside, a_inside))
    log_scale = op.Sub(op.Sub(op.Mul(a_inside, op.Log(x_inside)), x_inside), lgamma_of_positive(op, a_inside))
    scale = op.Exp(log_scale)
    lower = op.Mul(op.Div(scale, a_inside), _series(op, a_inside, op.Where(small, x_inside, 0)))
    upper = op.Mul(scale, _fraction(op, a_inside, x_inside, op.Not(small)))
    end = op.Where(op.Or(zero, certain), op.const(0.0, like=x), 1)
    undefined = op.Or(op.Or(op.Less(a, 0), op.Less(x, 0)), op.Or(op.And(zero, point), op.And(infinite, certain)))
    p = op.Where(plain, op.Where(small, lower, op.Sub(1, upper)), end)
    q = op.Where(plain, op.Where(small, op.Sub(1, lower), upper), op.Sub(1, end))
    return op.Where(undefined, math.nan, p), op.Where(undefined, math.nan, q)


def _series(op: Op, a: Value, x: Value) -> Value:
    """The sum of x^n / ((a + 1) … (a + n)) (NIST DLMF 8.11.4)."""

    def step(turn: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
        denominator, term, total = states
        after = op.Add(denominator, 1)
        smaller = op.Div(op.Mul(term, x), after)
        summed = op.Add(total, smaller)
        return any_of(op, op.Greater(smaller, op.Mul(summed, PRECISION))), (after, smaller, summed)

    one = op.const(1.0, like=x)
    return repeat(op, LONGEST, (a, one, one), step)[2]


def _fraction(op: Op, a: Value, x: Value, wanted: Value) -> Value:
    """Legendre's continued fraction (NIST DLMF 8.9.2), by Steed's algorithm from the front; 0 where it is not wanted.

    1 / (b0 + a1 / (b1 + a2 / (b2 + …))) with bn = x + 2n + 1 - a and an = n (a - n): each turn adds to the value so far
    the change before times (bn d - 1), where d is 1 / (an d + bn).
    """
    base = op.Add(op.Sub(x, a), 1)

    def step(turn: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
        n, b, d, change, total = states
        n, b = op.Add(n, 1), op.Add(b, 2)
        d = op.Reciprocal(op.Add(op.Mul(op.Mul(n, op.Sub(a, n)), d), b))
        change = op.Mul(change, op.Sub(op.Mul(b, d), 1))
        total = op.Add(total, change)
        return any_of(op, op.Greater(op.Abs(change), op.Mul(op.Abs(total), PRECISION))), (n, b, d, change, total)

    first = op.Where(wanted, op.Reciprocal(base), 0)
    inside = op.Where(wanted, base, 1)
    return repeat(op, LONGEST, (op.const(0.0, like=x), inside, op.Reciprocal(inside), first, first), step)[4]
