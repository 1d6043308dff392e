"""Whole numbers that 64 bits do not hold, which Python has and ONNX has not: `k < 2**63`, `min(n, 10**20)`.

What is compared with one, or is the smaller or larger one of both, is known without it. All else is refused.
"""

from __future__ import annotations

from typing import Any

import sympy

from fxport.exporter.lowering.lower.registry import Unsupported

END = 1 << 63
"""The first whole number that 64 bits do not hold."""

BEYOND = "it computes with {number}, a whole number beyond 64 bits, which the ONNX model has no form for"


def is_beyond(value: Any) -> bool:
    """Return whether a number, or an expression, is a constant that no INT64 reaches."""
    is_number = isinstance(value, (int, float, sympy.Number)) and value is not sympy.nan
    return is_number and bool(value >= END or value < -END)


def require_within(value: Any) -> None:
    """Raise Unsupported if a whole number is beyond 64 bits."""
    if isinstance(value, (int, sympy.Integer)) and is_beyond(value):
        raise Unsupported(BEYOND.format(number=value))


def _is_given(expr: sympy.Basic) -> bool:
    """Return whether an expression is a size or a whole number of the data, or the least or largest one of some."""
    if type(expr).__name__ in ("Min", "Max"):
        return all(_is_given(each) or isinstance(each, sympy.Number) for each in expr.args)
    return isinstance(expr, sympy.Symbol) and bool(expr.is_integer)


def decided(relation: sympy.Basic) -> bool | None:
    """Return what holds of all INT64, for a relation of one with a number that none reaches; else None.

    What is computed may itself be beyond 64 bits in Python: `k**3 < 2**63` is asked of the number that the graph lacks.
    """
    numbers = [each for each in relation.args if is_beyond(each)]
    if len(numbers) != 1 or not all(map(_is_given, (each for each in relation.args if each is not numbers[0]))):
        return None
    return bool(relation.xreplace(dict.fromkeys(relation.free_symbols, sympy.Integer(0))))


def reached(extreme: sympy.Basic) -> list[sympy.Basic]:
    """Return the arguments of a Min or Max of given whole numbers without constants that are never the result."""
    if not _is_given(extreme):
        return [*extreme.args]
    is_most = extreme.func.__name__ == "Max"
    numbers: list[Any] = [each for each in extreme.args if is_beyond(each)]
    idle = [each for each in numbers if (each < 0) == is_most]
    return [each for each in extreme.args if each not in idle]
