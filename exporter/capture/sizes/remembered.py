"""Arithmetic of sizes that is done once: a fake tensor asks for the same sums and products as the one before it.

PyTorch works out how each tensor lies in memory, in dozens of operations of symbolic numbers, by sympy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import sympy
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.experimental.sym_node import SymNode

from fxport.exporter.capture.private import REMEMBERED_SIZES
from fxport.fx_passes.private import is_whole

METHODS = ("_add", "_sub", "_mul", "_eq", "_ne", "_ge", "_gt", "_le", "_lt")
"""Methods whose result is that of their two expressions, and of no range of a symbol."""


@contextmanager
def arithmetic_remembered() -> Iterator[None]:
    """Give the result of an operation of whole numbers that was done before, as a number of its own.

    Of its own, as a trace tells by the number from which tensor a size comes. Once PyTorch has learned that symbols are
    equal, it is another operation. While a trace notes operations, each is done. PyTorch 2.11 does not tell what it has
    learned: there each operation is done.
    """
    if not is_whole(REMEMBERED_SIZES):
        yield
        return
    made: dict[tuple[Any, ...], dict[str, Any]] = {}
    with ExitStack() as stack:
        for name in METHODS:
            method = _remembering(name, getattr(SymNode, name), made)
            stack.enter_context(mock.patch.object(SymNode, name, method))
        for name, replacement in READS.items():
            stack.enter_context(mock.patch.object(SymNode, name, replacement(vars(SymNode)[name])))
        yield


def _remembering(
    name: str, method: Callable[[SymNode, SymNode], Any], made: dict[tuple[Any, ...], dict[str, Any]]
) -> Callable[[SymNode, SymNode], Any]:
    """Return the method; `made` gets what its results are made of."""

    def run(self: SymNode, other: SymNode) -> Any:
        env = self.shape_env
        if env is None or get_proxy_mode() is not None or not (_is_plain(self) and _is_plain(other)):
            return method(self, other)
        key = (
            *(name, id(env), env._replacements_version_counter),
            *(self._expr, self._hint, self._optimized_summation),
            *(other._expr, other._hint, other._optimized_summation),
        )
        if (parts := made.get(key)) is None:
            result = method(self, other)
            made[key] = dict(vars(result))  # which holds the environment: no other one gets its identity meanwhile
            return result
        result = SymNode.__new__(SymNode)
        vars(result).update(parts)
        return result

    return run


def _is_plain(number: SymNode) -> bool:
    """Return whether a number is a whole one of sympy, with an example that is one of Python's, or none."""
    return number.pytype is int and type(number._hint) in (int, type(None)) and isinstance(number._expr, sympy.Expr)


def _expression(read: property) -> property:
    """Return the property, which asks first whether the expression is a number; that takes a look at all its parts."""

    def expr(self: SymNode) -> Any:
        if (env := self.shape_env) is not None:
            version = env._replacements_version_counter
            if version == 0:
                return self._expr
            if version == self._expr_ver and self._expr_cache is not None:
                return self._expr_cache
        return read.__get__(self)

    return property(expr)


def _whole(method: Callable[[SymNode], int | None]) -> Callable[[SymNode], int | None]:
    """Return the method, which asks the same of an expression."""
    known: dict[Any, int | None] = {}

    def maybe_as_int(self: SymNode) -> int | None:
        expr = self.expr
        if expr not in known:
            known[expr] = method(self)
        return known[expr]

    return maybe_as_int


READS: Mapping[str, Callable[[Any], Any]] = {"expr": _expression, "maybe_as_int": _whole}
"""Attributes of a number that each operation reads, with what makes the replacement."""
