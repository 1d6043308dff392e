"""Symbolic numbers that come into the body of an operator from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch.fx.experimental.proxy_tensor import (
    _sympy_handlers,
    _SympyExprTrackerValue,
    get_proxy_mode,
    get_proxy_slot,
)
from torch.fx.experimental.sym_node import SymNode

NUMBERS = (SymInt, SymFloat, SymBool)


def is_tracked(number: Any) -> bool:
    """Return whether the graph that is traced has a number, as it has what Python computes in a body."""
    traced = get_proxy_mode()
    return traced is not None and number in traced.tracer.symnode_tracker


def is_rebuilt(expr: sympy.Basic) -> bool:
    """Return whether the trace of a body makes a number of the symbols in it, which it has with the sizes of tensors.

    PyTorch does so for the operations of Python's `operator` on whole numbers, and not for `n / 2`.
    """
    parts = (each for each in sympy.preorder_traversal(expr) if each.args)
    return all(each.func in _sympy_handlers() for each in parts)


def track(items: Mapping[sympy.Basic, Any]) -> None:
    """Let the trace of a body know the numbers that came into it by their expressions: Python has those of outside."""
    traced = get_proxy_mode()
    if traced is None:
        return
    for expr, item in items.items():
        proxy = get_proxy_slot(item, traced.tracer, None)
        if proxy is not None:
            known: Any = traced.tracer.sympy_expr_tracker  # by expressions
            known[expr] = _SympyExprTrackerValue(proxy, item)


def symbols_in(values: Sequence[Any]) -> set[sympy.Symbol]:
    """Return the symbols in the values: those of numbers, and of sizes of tensors."""
    numbers = [each for each in values if isinstance(each, NUMBERS)]
    tensors = [each for each in values if isinstance(each, Tensor)]
    with torch._C.DisableTorchFunction():  # it is no call of the model's: the modes around have seen what made these
        numbers += [size for each in tensors for size in each.shape if isinstance(size, SymInt)]
    found: set[sympy.Symbol] = set()
    return found.union(*(each.node.expr.free_symbols for each in numbers))


def number_of(symbol: sympy.Symbol, node: SymNode) -> Any:
    """Return the symbol as a symbolic number."""
    kind = SymInt if symbol.is_integer else SymFloat
    return kind(SymNode(symbol, node.shape_env, int if kind is SymInt else float, None))


def node_of(number: Any) -> SymNode:
    """Return the node of a symbolic number."""
    return number.node


def passed(number: Any) -> Any:
    """Return a number as an input of the body: of numbers PyTorch takes whole ones only, others in tensors."""
    dtype = {SymFloat: torch.float64, SymBool: torch.bool}.get(type(number))
    return number if dtype is None else torch.scalar_tensor(number, dtype=dtype)
