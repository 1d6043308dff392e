"""Quotients of sizes have the value of Python's `//`, and no common factor is left to sympy's simplification."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import sympy
from torch.utils._sympy.functions import FloorDiv, Mod

from fxport.fx_passes.quotients import quotient

a, b = sympy.symbols("a b", integer=True, positive=True)
signed = sympy.Symbol("signed", integer=True)
rows: Any = FloorDiv(a - 1, 8) + 1
columns: Any = FloorDiv(b - 1, 8) + 1

PAIRS: dict[str, tuple[Any, Any]] = {
    "a number": (6 * a + 4 * b, 4),
    "a number and a rest": (6 * a + 4 * b + 2, 4),
    "a factor": (rows * columns * 4, columns),
    "a sum that is a factor": (4 * rows * columns, 4 * rows),
    "factors of a product": (sympy.Mul(12, a, rows, columns), sympy.Mul(8, rows, columns)),
    "a factor of each term": (rows * a + rows * b, rows * 2),
    "a factor twice": (rows * rows * a, rows),
    "squares": (a**2 * b, a * b * 3),
    "no factor": (a + 1, b + 1),
    "a rounded one": (FloorDiv(a, b), b),
    "a rounded factor": (FloorDiv(a + 7, 2) * 6, FloorDiv(a + 7, 2) * 4),
    "a remainder": (Mod(a, 5) * 6 * b + 3, 9),
    "the same": (a * rows, a * rows),
    "negative": (-6 * signed + 4, 4),
    "a negative divisor": (6 * a + 4, -4),
    "a factor of any sign": (signed * a, signed * b),
    "a symbol": (a, 2),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_value_is_that_of_python(name: str) -> None:
    base, divisor = map(sympy.sympify, PAIRS[name])
    found = quotient(base, divisor)
    for values in itertools.product((1, 2, 9, 16, 33, 57), (1, 3, 8, 25), (-7, -1, 4)):
        sizes = dict(zip((a, b, signed), values, strict=True))
        under, over = (int(each.xreplace(sizes)) for each in (divisor, base))
        assert int(found.xreplace(sizes)) == over // under, sizes


LEFT = ("a factor of each term", "a factor twice")
"""Common factors of which one stands in a power or a product that is multiplied out: PyTorch looks for them."""


@pytest.mark.parametrize("name", [each for each in PAIRS if each not in LEFT])
def test_sympy_simplifies_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def simplified(expr: Any) -> Any:
        raise AssertionError(f"simplify({expr})")

    monkeypatch.setattr(sympy, "simplify", simplified)
    sympy.core.cache.clear_cache()
    quotient(*map(sympy.sympify, PAIRS[name]))
