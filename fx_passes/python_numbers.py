"""Symbolic numbers while a model is traced: their arithmetic is Python's, where PyTorch's is another.

Private PyTorch API is used here: `SymNode`, whose methods make the expressions, and how a trace notes what they do.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import SymFloat, SymInt
from torch.fx.experimental.proxy_tensor import get_proxy_mode, handle_sym_dispatch
from torch.fx.experimental.sym_node import SymNode, wrap_node

from fx_passes.float_functions import MINUS_ONE, FloatAdd, FloatFloorDiv, FloatMod, FloatMul

Expr = Any
"""An expression of sympy, which has no types."""


def _negative(a: Expr) -> Expr:
    return FloatMul(MINUS_ONE, a)


def _difference(a: Expr, b: Expr) -> Expr:
    return FloatAdd(a, _negative(b))


OPERATIONS: Mapping[str, tuple[Callable[..., Any], Callable[..., Expr]]] = {
    "_add": (operator.add, FloatAdd),
    "_sub": (operator.sub, _difference),
    "_mul": (operator.mul, FloatMul),
    "_mod": (operator.mod, FloatMod),
    "_neg": (operator.neg, _negative),
}
"""By the name of the method of `SymNode`: what Python computes, and the expression of it."""


@contextmanager
def numbers_as_python() -> Iterator[None]:
    """Meanwhile symbolic floats are computed as Python computes floats, each operation for itself."""
    with ExitStack() as stack:
        for name, (operation, expression) in OPERATIONS.items():
            kept = _kept(getattr(SymNode, name), operation, expression)
            stack.enter_context(mock.patch.object(SymNode, name, kept))
        for kind in (SymInt, SymFloat):
            stack.enter_context(mock.patch.object(kind, "__floordiv__", _divided(kind.__floordiv__)))
            stack.enter_context(mock.patch.object(kind, "__rfloordiv__", _reflected(kind.__rfloordiv__)))
        yield


def _kept(
    original: Callable[..., Any], operation: Callable[..., Any], expression: Callable[..., Expr]
) -> Callable[..., Any]:
    """A method of SymNode that leaves whole numbers to PyTorch, and so what a trace has to note first."""

    def method(*operands: Any) -> Any:
        if get_proxy_mode() is not None or not all(each.is_float() for each in operands):
            return original(*operands)
        return computed(operation, expression, *operands)

    return method


def computed(operation: Callable[..., Any], expression: Callable[..., Expr], *operands: SymNode) -> SymNode:
    """The float that an operation gives: its expression, and its value for the example where that is known."""
    hints = [each.hint for each in operands]
    hint = None if None in hints else operation(*hints)
    return SymNode(expression(*(each.expr for each in operands)), operands[0].shape_env, float, hint)


def _divided(original: Callable[..., Any]) -> Callable[..., Any]:
    def floordiv(self: Any, other: Any) -> Any:
        return _quotient(self, other) if _is_of_floats(self, other) else original(self, other)

    return floordiv


def _reflected(original: Callable[..., Any]) -> Callable[..., Any]:
    def floordiv(self: Any, other: Any) -> Any:
        return _quotient(other, self) if _is_of_floats(self, other) else original(self, other)

    return floordiv


def _is_of_floats(*operands: Any) -> bool:
    known = all(isinstance(each, (int, float, SymInt, SymFloat)) for each in operands)
    return known and any(isinstance(each, (float, SymFloat)) for each in operands)


def _quotient(a: Any, b: Any) -> Any:
    """`a // b` of numbers of which one is a float; PyTorch rounds the quotient before it takes the floor."""
    a, b = torch.sym_float(a), torch.sym_float(b)
    if get_proxy_mode() is not None:
        return handle_sym_dispatch(operator.floordiv, (a, b), {})
    node = next(each.node for each in (a, b) if isinstance(each, SymFloat))
    nodes = [each.node if isinstance(each, SymFloat) else node.wrap_float(each) for each in (a, b)]
    return wrap_node(computed(operator.floordiv, FloatFloorDiv, *nodes))
