"""Sizes in their shortest form while a model is captured: PyTorch's own algebra takes minutes over nested ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from torch.fx.experimental.sym_node import SymNode

from exporter.capture.sizes.stairs import shortened

METHODS = ("_add", "_sub", "_int_floordiv", "_mod", "_sym_max", "_sym_min", "_ceil", "_floor", "_trunc")
"""What rounds or compares symbolic numbers, and what joins roundings; products of short forms are short."""


@contextmanager
def sizes_shortened() -> Iterator[None]:
    """Every result of a rounding is written as plainly as it can be, with the same value at every size."""
    known: dict[Any, Any] = {}
    with ExitStack() as stack:
        for name in METHODS:
            stack.enter_context(mock.patch.object(SymNode, name, _shortening(getattr(SymNode, name), known)))
        yield


def _shortening(method: Callable[..., Any], known: dict[Any, Any]) -> Callable[..., Any]:
    def run(*operands: Any) -> Any:
        result = method(*operands)
        if isinstance(result, SymNode):
            expr = result._expr
            if expr not in known:
                known[expr] = shortened(expr)
            result._expr = known[expr]
        return result

    return run
