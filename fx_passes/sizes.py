"""Symbolic numbers of PyTorch as sympy expressions, compared and read without adding guards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import Identity

Size = int | sympy.Expr
"""One size of a shape: a number, or an expression over size symbols."""


def size_of(value: Any) -> Any:
    """A symbolic number as a sympy expression, or as a Python number where it is known to be constant.

    Anything else is returned as it is. Asking a SymInt itself (`size == 4`) would specialise it.
    """
    expr = getattr(getattr(value, "node", None), "expr", value)
    return plain(expr)


def plain(expr: Any) -> Any:
    """Sympy's numbers and truth values as Python's; everything else as it is."""
    match expr:
        case sympy.Integer():
            return int(expr)
        case sympy.Float() | sympy.Rational():
            return float(expr)
        case sympy.core.numbers.Infinity() | sympy.core.numbers.NegativeInfinity() | sympy.core.numbers.NaN():
            return float(expr)
        case sympy.logic.boolalg.BooleanTrue() | sympy.logic.boolalg.BooleanFalse():
            return bool(expr)
    return expr


def is_symbolic(value: Any) -> bool:
    return isinstance(value, sympy.Basic)


def sizes_of(tensor: torch.Tensor) -> tuple[Size, ...]:
    """The sizes of a fake tensor."""
    return tuple(size_of(size) for size in tensor.shape)


def same_sizes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return True if two fake tensors have the same sizes, by structure."""
    return sizes_of(a) == sizes_of(b)


class NamedSize(sympy.Symbol):
    """A symbol that stands for an expression over other sizes, which is too long to be reckoned with.

    Two are the same where both the names and the definitions are.
    """

    __slots__ = ("definition",)
    definition: sympy.Expr

    def __new__(cls, name: str, definition: sympy.Expr, **assumptions: bool) -> NamedSize:
        self = sympy.Symbol.__xnew__(cls, name, **assumptions)
        self.definition = definition
        return self

    def __getnewargs_ex__(self) -> Any:
        return (self.name, self.definition), self._assumptions_orig

    def _hashable_content(self) -> Any:
        return (*super()._hashable_content(), self.definition)


def unfolded(expr: Any) -> Any:
    """An expression or condition with what its named sizes stand for in their place."""
    while names := expr.atoms(NamedSize):
        expr = rebuilt(expr, {name: name.definition for name in names}, evaluate=False)
    return expr


def rebuilt(expr: Any, values: Mapping[sympy.Symbol, Any], **options: bool) -> Any:
    """An expression with these values for its symbols, with `evaluate=False` as it is.

    Sympy's own replacement simplifies each step of it, which takes minutes where steps are long.
    """
    if not expr.args:
        return values.get(expr, expr)
    if isinstance(expr, Identity):  # which keeps sympy from simplifying, also what is a number then
        return rebuilt(expr.args[0], values, **options)
    made = [rebuilt(each, values, **options) for each in expr.args]
    return expr.func(*made) if isinstance(expr, sympy.Tuple) else expr.func(*made, **options)
