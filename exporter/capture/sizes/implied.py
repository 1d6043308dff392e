"""Proofs that a condition on one size follows from others, where all are FloorLinear.

A FloorLinear `f` has `f(r + k * period) = f(r) + k * rise`. For each `r` of one period a condition `f <= 0` holds for
an interval of `k`, and a linear function is largest at an end of an interval. That decides it for every size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from fxport.exporter.capture.sizes.floor_linear import FloorLinear, NotFloorLinear, floor_linear_of


@dataclass(frozen=True, slots=True)
class Given:
    """Conditions on one size: functions of it that are 0 or less, and functions that are never 0."""

    bounds: Sequence[FloorLinear]
    unequal: Sequence[FloorLinear]


def follows(bound: Any, known: Iterable[Any]) -> bool:
    """Return whether an expression over one size is 0 or less wherever these conditions on it hold.

    False also where that cannot be told. Sizes are 0 or more.
    """
    bound = sympy.expand(bound)
    if bound.is_number:
        return bool(bound <= 0)
    if len(bound.free_symbols) != 1:
        return False
    try:
        goal = floor_linear_of(bound)
        given = _given(each for each in known if each.free_symbols == bound.free_symbols)
        period = math.lcm(*(len(each.values) for each in (goal, *given.bounds, *given.unequal)))
        return _holds(_over(goal, period), [_over(each, period) for each in given.bounds], given, period)
    except NotFloorLinear:
        return False


def _given(known: Iterable[Any]) -> Given:
    """Return conditions as FloorLinear; what is none is left out, which proves less."""
    bounds, unequal = [], []
    for each in known:
        if not isinstance(each, sympy.core.relational.Relational):
            continue
        difference = sympy.expand(each.lhs - each.rhs)  # type: ignore[operator]  # sides are expressions
        try:
            f = floor_linear_of(difference)
        except NotFloorLinear:
            continue
        one = FloorLinear(f.values * 0 + 1, 0)
        match each:
            case sympy.Eq():
                bounds += [f, f.times(-1)]
            case sympy.Ne():
                unequal.append(f)
            case sympy.Le():
                bounds.append(f)
            case sympy.Lt():
                bounds.append(f + one)
            case sympy.Ge():
                bounds.append(f.times(-1))
            case sympy.Gt():
                bounds.append(f.times(-1) + one)
    return Given(bounds, unequal)


def _over(f: FloorLinear, period: int) -> FloorLinear:
    return f.over(period // len(f.values))


def _holds(goal: FloorLinear, bounds: Sequence[FloorLinear], given: Given, period: int) -> bool:
    excluded = [_over(each, period).values for each in given.unequal if each.rise == 0]
    for residue in range(period):
        if any(values[residue] == 0 for values in excluded):
            continue
        low, high = 0, math.inf
        for each in bounds:
            value = int(each.values[residue])
            if each.rise > 0:
                high = min(high, -value // each.rise)
            elif each.rise < 0:
                low = max(low, -(-value // -each.rise))
            elif value > 0:
                high = -1
        if low > high:
            continue
        if goal.rise > 0 and high == math.inf:
            return False
        at = high if goal.rise > 0 else low
        if goal.values[residue] + at * goal.rise > 0:
            return False
    return True
