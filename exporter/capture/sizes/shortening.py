"""Sizes in their shortest form while a model is captured: PyTorch's own algebra takes minutes over nested ones.

What has no short form gets a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from torch.fx.experimental.sym_node import SymNode

from fxport.exporter.capture.sizes.floor_linear import shortened
from fxport.exporter.capture.sizes.naming import named, names_unasked
from fxport.fx_passes.sizes import NamedSize

METHODS = ("_add", "_sub", "_int_floordiv", "_mod", "_sym_max", "_sym_min", "_ceil", "_floor", "_trunc")
"""Methods that round or compare symbolic numbers, or join roundings; products of short forms are short."""


@contextmanager
def sizes_shortened() -> Iterator[None]:
    """Write every result of a rounding as plainly as it can be, with the same value at every size."""
    forms: dict[Any, Any] = {}
    names: dict[Any, NamedSize] = {}

    def short(node: SymNode) -> Any:
        expr = node._expr
        if expr not in forms:
            forms[expr] = shortened(expr)
        return named(node, forms[expr], names)

    with ExitStack() as stack:
        stack.enter_context(names_unasked())
        for name in METHODS:
            stack.enter_context(mock.patch.object(SymNode, name, _shortening(getattr(SymNode, name), short)))
        yield


def _shortening(method: Callable[..., Any], short: Callable[[SymNode], Any]) -> Callable[..., Any]:
    def run(*operands: Any) -> Any:
        result = method(*operands)
        if isinstance(result, SymNode):
            result._expr = short(result)
        return result

    return run
