"""Whole-number functions of one size, made of sums and roundings, in their shortest form.

A network that pads, strides and windows nests its sizes: `((h + 1)//2 + 6)//7 …`. Every such function is linear from
period to period: `f(n + period) = f(n) + rise` for all n. One period of its values therefore tells all of it, and with
that whether it is a plain `m*((a*n + c)//d) + e`, or never negative. Nothing here is a guess from samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import sympy
from torch.utils._sympy.functions import (
    CeilToInt,
    CleanDiv,
    FloorDiv,
    FloorToInt,
    IntTrueDiv,
    Max,
    Min,
    Mod,
    PythonMod,
    TruncToInt,
)

from fxport.fx_passes.quotients import quotient

LONGEST = 1 << 14
"""Longer periods are left alone."""

LARGEST = 1 << 31
"""So are larger constants: the values are 64-bit integers."""

MODULI = (Mod, PythonMod)
DIVISIONS = (FloorDiv, CleanDiv)
TO_INT = (CeilToInt, FloorToInt, TruncToInt)
ROUNDED = (*MODULI, *DIVISIONS, *TO_INT)
EXTREMES = (Max, Min)


class NotFloorLinear(Exception):
    """The expression is no function of this kind, or its period is too long."""


@dataclass(frozen=True)
class FloorLinear:
    """The values at 0, 1, … of one period, and by how much the next period lies higher."""

    values: np.ndarray
    rise: int

    def over(self, times: int) -> FloorLinear:
        """Return the same function with so many periods as one."""
        if len(self.values) * times > LONGEST:
            raise NotFloorLinear
        parts = [self.values + i * self.rise for i in range(times)]
        return FloorLinear(np.concatenate(parts), self.rise * times)

    def __add__(self, other: FloorLinear) -> FloorLinear:
        period = math.lcm(len(self.values), len(other.values))
        a, b = (each.over(period // len(each.values)) for each in (self, other))
        return FloorLinear(a.values + b.values, a.rise + b.rise)

    def times(self, factor: int) -> FloorLinear:
        return FloorLinear(self.values * factor, self.rise * factor)

    def divided(self, divisor: int) -> FloorLinear:
        """Return the function divided by a positive number as Python's `//` does."""
        whole = self.over(divisor // math.gcd(divisor, self.rise))
        return FloorLinear(whole.values // divisor, whole.rise // divisor)

    @property
    def never_negative(self) -> bool:
        return self.rise >= 0 and bool((self.values >= 0).all())

    def formula(self, n: sympy.Symbol) -> sympy.Expr | None:
        """Return the function as `m*((a*n + c)//d) + e` with a > 0 and c near 0, if it has this form."""
        start, period = int(self.values[0]), len(self.values)
        steps = np.diff(self.values, append=start + self.rise)
        height = int(np.gcd.reduce(steps))
        if height == 0:
            return sympy.Integer(start)
        if self.rise == 0:
            return None
        height = height if self.rise > 0 else -height
        slope = Fraction(self.rise // height, period)
        a, d = slope.numerator, slope.denominator
        above = d * ((self.values - start) // height) - a * np.arange(period)
        lowest, highest = int(above.max()), int(above.min()) + d - 1
        if lowest > highest:
            return None
        c = (lowest + d // 2) % d - d // 2
        quotient: Any = FloorDiv(a * n + c, d)
        return height * (quotient + (lowest - c) // d) + start


def floor_linear_of(expr: Any) -> FloorLinear:
    """Return an expression over one symbol as a FloorLinear; raise NotFloorLinear if it is none."""
    if isinstance(expr, sympy.Integer):
        return FloorLinear(np.array([_small(expr)], np.int64), 0)
    if isinstance(expr, sympy.Symbol):
        return FloorLinear(np.zeros(1, np.int64), 1)
    row = ROWS.get(type(expr))
    if row is None:
        raise NotFloorLinear
    return row(expr)


def _small(number: Any) -> int:
    if not isinstance(number, sympy.Integer) or abs(number) > LARGEST:
        raise NotFloorLinear
    return int(number)


def _sum(expr: Any) -> FloorLinear:
    return reduce(FloorLinear.__add__, map(floor_linear_of, expr.args))


def _multiple(expr: Any) -> FloorLinear:
    factor, rest = expr.as_coeff_Mul()
    if rest.is_Mul:
        raise NotFloorLinear
    return floor_linear_of(rest).times(_small(factor))


def _floor(expr: Any) -> FloorLinear:
    base, divisor = expr.args
    if _small(divisor) <= 0:
        raise NotFloorLinear
    return floor_linear_of(base).divided(int(divisor))


def _modulo(expr: Any) -> FloorLinear:
    base, divisor = expr.args
    return floor_linear_of(base) + _floor(expr).times(-_small(divisor))


def _rounded(expr: Any) -> FloorLinear:
    """Return a rounded quotient of integers: exact, as one that is no integer is far from any at these magnitudes."""
    (quotient,) = expr.args
    if not isinstance(quotient, IntTrueDiv):
        raise NotFloorLinear
    base, divisor = floor_linear_of(quotient.args[0]), _small(quotient.args[1])
    if divisor <= 0 or (isinstance(expr, TruncToInt) and not base.never_negative):
        raise NotFloorLinear
    return base.times(-1).divided(divisor).times(-1) if isinstance(expr, CeilToInt) else base.divided(divisor)


ROWS: Mapping[type, Callable[[Any], FloorLinear]] = {
    sympy.Add: _sum,
    sympy.Mul: _multiple,
    **dict.fromkeys(DIVISIONS, _floor),
    **dict.fromkeys(MODULI, _modulo),
    **dict.fromkeys(TO_INT, _rounded),
}


def shortened(expr: Any) -> Any:
    """Return an expression of sizes with nested roundings resolved, as far as they are FloorLinear."""
    if not isinstance(expr, sympy.Expr) or not _is_nested(expr):
        return expr
    return _plain(expr.xreplace({each: _extreme(each) for each in expr.atoms(*EXTREMES)}))


def _is_nested(expr: Any) -> bool:
    """Return whether something rounded is rounded again, is an operand of Max or Min, or is added to another."""
    rounded = expr.atoms(*ROUNDED, *EXTREMES)
    if len(rounded) > 1 and expr.is_Add and len(expr.free_symbols) == 1:
        return True
    return any(each.has(*ROUNDED) for outer in rounded for each in outer.args)


def _formula(expr: Any) -> Any:
    if len(expr.free_symbols) != 1:
        return None
    (symbol,) = expr.free_symbols
    try:
        return floor_linear_of(expr).formula(symbol)
    except NotFloorLinear:
        return None


def _plain(expr: Any) -> Any:
    """Return an expression as one formula, or as a sum of them."""
    short = _formula(expr)
    if short is not None:
        return short
    terms = [term.as_coeff_Mul() for term in sympy.Add.make_args(expr)]
    return sympy.Add(*(factor * _resolved(atom) for factor, atom in terms))


def _resolved(atom: Any) -> Any:
    """Return one term; a remainder is what the quotient leaves, and cancels with what it is added to."""
    if isinstance(atom, MODULI):
        base, divisor = _plain(atom.args[0]), atom.args[1]
        return sympy.expand(base - divisor * _plain(_expanded_quotient(base, divisor)))
    short = _formula(atom) if isinstance(atom, ROUNDED) else None
    return atom if short is None else short


def _expanded_quotient(base: Any, divisor: Any) -> Any:
    """Return a quotient of a sum: what is a factor of both is plain before the product is multiplied out."""
    common = quotient(base, divisor)
    if not isinstance(common, FloorDiv):
        return common
    base, divisor = common.args
    return quotient(sympy.expand(base), divisor)


def _extreme(expr: Any) -> Any:
    """Return a maximum or minimum without what is never the largest, or the smallest."""
    kept: list[Any] = list(expr.args)
    sign = 1 if isinstance(expr, Max) else -1
    for each in expr.args:
        if any(other is not each and _never_below(sign * (other - each)) for other in kept):
            kept.remove(each)
    return type(expr)(*kept)


def _never_below(difference: Any) -> bool:
    if len(difference.free_symbols) > 1:
        return False
    try:
        return floor_linear_of(sympy.expand(difference)).never_negative
    except NotFloorLinear:
        return False
