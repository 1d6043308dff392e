"""Conditions on sizes as plain Python: tried on many sizes, and put into words."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sympy
from torch.utils._sympy.functions import CeilToInt, FloorToInt, RoundToInt, TruncToInt
from torch.utils._sympy.printers import PythonPrinter

from fxport.fx_passes.sizes import rebuilt

ROUNDINGS = (CeilToInt, FloorToInt, RoundToInt, TruncToInt)
"""Functions from a fraction to an integer, in the expressions of sizes."""

Test = Callable[..., bool]

FARTHEST = 4096
"""Sizes beyond this one are not tried."""


def test_of(condition: sympy.Basic, symbols: Sequence[sympy.Symbol]) -> Test:
    """Return a condition as a function of its sizes; it does not hold where it cannot be computed, as `n // 0`."""
    names = {symbol: f"n{i}" for i, symbol in enumerate(symbols)}
    function = eval(f"lambda {', '.join(names.values())}: {text_of(condition, names)}", {"math": math})

    def test(*sizes: int) -> bool:
        try:
            return bool(function(*sizes))
        except (ArithmeticError, ValueError):
            return False

    return test


def text_of(condition: sympy.Basic, names: Mapping[sympy.Symbol, str]) -> str:
    """Return a condition as a Python programmer writes it, with the user's names of the sizes."""
    return _without_outer(_Python().doprint(renamed(condition, names)))


def renamed(condition: sympy.Basic, names: Mapping[sympy.Symbol, str]) -> Any:
    """Return the condition over symbols of these names."""
    symbols = {s: sympy.Symbol(name, integer=True, positive=True) for s, name in names.items()}
    return rebuilt(condition, symbols, evaluate=False)


def sizes_to_try(low: int, high: int | None, hint: int) -> range:
    """Return all sizes from the smallest to well beyond that of the example, without a gap."""
    return range(low, min(max(2 * hint + 2, low + 130), high if high is not None else FARTHEST, FARTHEST) + 1)


def few_sizes(low: int, high: int | None, hint: int, count: int) -> list[int]:
    """Return some sizes, the most telling first: the smallest, those near the example, its multiples and parts."""
    near, further = ([hint + step for step in steps] for steps in ((0, 1, -1, 2), (-2, 3, 4, 8)))
    scaled = [hint * k for k in (2, 3, 4)] + [hint // k for k in (2, 3, 4)]
    small = list(range(low, low + 8))
    several = (*near, *small[:3], *scaled, *further, *small)
    chosen = dict.fromkeys(each for each in several if low <= each and (high is None or each <= high))
    return list(chosen)[:count]


def grid(choices: Sequence[Sequence[int]]) -> Iterable[tuple[int, ...]]:
    """Return all combinations of sizes."""
    return itertools.product(*choices)


def words_for(passing: Sequence[int], tried: Sequence[int]) -> str | None:
    """Describe which of the sizes that were tried are allowed, "at least 4 and a multiple of 4"; None if all are."""
    if len(passing) == len(tried):
        return None
    if len(passing) <= 1:
        return f"exactly {passing[0]}" if passing else "no size at all"
    parts: list[str] = []
    step = min(b - a for a, b in itertools.pairwise(passing))
    even = step > 1 and all((each - passing[0]) % step == 0 for each in passing)
    first, last = passing[0], passing[-1]
    below, above = first - tried[0] >= step, tried[-1] - last >= step
    if below and above:
        parts.append(f"{first} to {last}")
    elif below or above:
        parts.append(f"at least {first}" if below else f"at most {last}")
    if even:
        rest = first % step
        parts.append(f"{rest} more than a multiple of {step}" if rest else f"a multiple of {step}")
        step_set = range(first, last + 1, step)
    else:
        step_set = range(first, last + 1)
    missing = sorted(set(step_set) - set(passing))
    if missing and len(missing) <= 3:
        parts.append(f"not {' nor '.join(map(str, missing))}")
    elif missing:
        shown = ", ".join(map(str, passing[:4]))
        return f"one of {shown} or some of those above"
    return " and ".join(parts)


class _Python(PythonPrinter):
    """PyTorch's printer, with Python's own functions in place of PyTorch's."""

    def _print_Float(self, expr: sympy.Expr) -> str:  # noqa: N802  # as PyTorch calls it
        return repr(float(expr))

    def _print_ToFloat(self, expr: sympy.Expr) -> str:  # noqa: N802
        return f"float({self._print(expr.args[0])})"

    def _print_TruncToFloat(self, expr: sympy.Expr) -> str:  # noqa: N802
        return f"float(math.trunc({self._print(expr.args[0])}))"

    def _print_Where(self, expr: sympy.Expr) -> str:  # noqa: N802
        condition, chosen, other = map(self._print, expr.args)
        return f"({chosen} if {condition} else {other})"

    def _print_OpaqueUnaryFn_sqrt(self, expr: sympy.Expr) -> str:  # noqa: N802
        return self._print_Function(expr)

    def _print_Function(self, expr: sympy.Expr) -> str:  # noqa: N802
        name = type(expr).__name__
        of_math = name.startswith(_MATH)
        arguments = ", ".join(map(self._print, expr.args))
        return f"math.{name.removeprefix(_MATH)}({arguments})" if of_math else super()._print_Function(expr)


_MATH = "OpaqueUnaryFn_"
"""Name prefix of functions of a size that PyTorch does not look into: those of Python's `math`."""


def _without_outer(text: str) -> str:
    """Return the text without a pair of parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for position, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0 and position < len(text) - 1:
            return text
    return text[1:-1]
