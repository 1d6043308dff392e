"""Symbolic numbers while a model is traced: their arithmetic is Python's, where PyTorch's is another.

Private PyTorch API is used here: `SymNode`, whose methods make the expressions, and how a trace notes what they do.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import SymFloat, SymInt
from torch.fx.experimental.proxy_tensor import get_proxy_mode, handle_sym_dispatch
from torch.fx.experimental.sym_node import SymNode, wrap_node
from torch.utils._sympy.functions import FloorDiv, Identity, IntTrueDiv, PythonMod, TruncToInt

from fxport.fx_passes.float_functions import MINUS_ONE, FloatAdd, FloatFloorDiv, FloatMod, FloatMul
from fxport.fx_passes.quotients import quotient

Expr = Any
"""An expression of sympy, which has no types."""


def _negative(a: Expr) -> Expr:
    return FloatMul(MINUS_ONE, a)


def _difference(a: Expr, b: Expr) -> Expr:
    return a if b.is_zero else FloatAdd(a, _negative(b))


FLOAT_OPERATIONS: Mapping[str, tuple[Callable[..., Any], Callable[..., Expr]]] = {
    "_add": (operator.add, FloatAdd),
    "_sub": (operator.sub, _difference),
    "_mul": (operator.mul, FloatMul),
    "_mod": (operator.mod, FloatMod),
    "_neg": (operator.neg, _negative),
}
"""By the name of the method of `SymNode`: what Python computes with floats, and the expression of it."""


def _floor_quotient(a: Expr, b: Expr) -> Expr:
    """PyTorch makes one division of two, which needs a positive divisor."""
    if b.is_negative:
        a, b = -a, -b
    return quotient(a if b.is_positive or not isinstance(a, FloorDiv) else Identity(a), b)


def _remainder(a: Expr, b: Expr) -> Expr:
    """Of a negative divisor that of the opposite numbers; PyTorch knows the remainder only for others."""
    opposite: Any = PythonMod(-a, -b) if b.is_negative else None
    return opposite if opposite is None else -opposite


def _truncated(a: Expr) -> Expr:
    """PyTorch takes a quotient that is truncated for one that is rounded down."""
    return TruncToInt(Identity(a)) if isinstance(a, IntTrueDiv) and not _is_natural(a) else None


def _is_natural(quotient: Expr) -> bool:
    a, b = quotient.args
    return bool(a.is_nonnegative and b.is_positive)


INT_OPERATIONS: Mapping[str, tuple[Callable[..., Any], Callable[..., Expr]]] = {
    "_int_floordiv": (operator.floordiv, _floor_quotient),
    "_mod": (operator.mod, _remainder),
    "_trunc": (math.trunc, _truncated),
}
"""The same where Python computes a whole number; None in the place of an expression leaves it to PyTorch."""


@contextmanager
def numbers_as_python() -> Iterator[None]:
    """Meanwhile symbolic numbers are computed as Python computes them, each operation on floats for itself."""
    with ExitStack() as stack:
        for operations, kind in ((INT_OPERATIONS, int), (FLOAT_OPERATIONS, float)):
            for name, (operation, expression) in operations.items():
                kept = _kept(getattr(SymNode, name), operation, expression, kind)
                stack.enter_context(mock.patch.object(SymNode, name, kept))
        for owner in (SymInt, SymFloat):
            stack.enter_context(mock.patch.object(owner, "__floordiv__", _divided(owner.__floordiv__)))
            stack.enter_context(mock.patch.object(owner, "__rfloordiv__", _reflected(owner.__rfloordiv__)))
        yield


def _kept(
    original: Callable[..., Any], operation: Callable[..., Any], expression: Callable[..., Expr], kind: type
) -> Callable[..., Any]:
    """A method of SymNode with this expression for results of the kind; first PyTorch lets a trace note the call."""

    def method(*operands: Any) -> Any:
        given = float if any(each.is_float() for each in operands) and operation is not math.trunc else int
        if get_proxy_mode() is not None or given is not kind:
            return original(*operands)
        expr = expression(*(each.expr for each in operands))
        return original(*operands) if expr is None else computed(operation, expr, kind, *operands)

    return method


def computed(operation: Callable[..., Any], expr: Expr, kind: type, *operands: SymNode) -> SymNode:
    """The number of this expression, with its value for the example where those of the operands are known."""
    hints = [each.hint for each in operands]
    hint = None if None in hints else operation(*hints)
    return SymNode(expr, operands[0].shape_env, kind, hint)


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
    expr = FloatFloorDiv(*(each.expr for each in nodes))
    return wrap_node(computed(operator.floordiv, expr, float, *nodes))
