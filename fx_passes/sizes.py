"""Symbolic numbers of PyTorch as sympy expressions, compared and read without adding guards."""

from __future__ import annotations

from typing import Any

import sympy
import torch

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
        case sympy.logic.boolalg.BooleanTrue() | sympy.logic.boolalg.BooleanFalse():
            return bool(expr)
    return expr


def is_symbolic(value: Any) -> bool:
    return isinstance(value, sympy.Basic)


def sizes_of(tensor: torch.Tensor) -> tuple[Size, ...]:
    """The sizes of a fake tensor."""
    return tuple(size_of(size) for size in tensor.shape)


def same_sizes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two fake tensors have the same sizes, by structure."""
    return sizes_of(a) == sizes_of(b)
