"""Nodes of a body that can be computed around it: numbers and views that are the same whenever the body runs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.fx.node import map_arg

from fxport.fx_passes.graph import call, fake
from fxport.fx_passes.scans import BodyInput
from fxport.fx_passes.sizes import is_symbolic, same_sizes, size_of, sizes_of

aten = torch.ops.aten

Apply = Callable[[Node | None, Any, tuple[Any, ...]], Any]
"""Applies a target to arguments, as the given node of the body does: to fake values, or by a call around the body."""


class Invariants:
    """Moves what a body computes from inputs that it is given whole to the graph around it, to before `node`."""

    def __init__(self, node: Node, whole: Sequence[BodyInput]) -> None:
        self.node = node
        self.operands = {each.placeholder: each.operand for each in whole}
        known = (each.placeholder for each in whole if _is_same(each))
        self.symbols: set[sympy.Symbol] = set().union(*map(_symbols_of, known))

    def covers(self, argument: Any, given: Mapping[Node, Any] = {}) -> bool:  # read only
        """Return True if the nodes in an argument can be computed around the body, which may never run.

        `given` are nodes to treat as known.
        """
        nodes: list[Node] = []
        map_arg(argument, nodes.append)
        return all(self._covers(node, given) for node in nodes)

    def _covers(self, node: Node, given: Mapping[Node, Any]) -> bool:
        if node in given:
            return True
        if node in self.operands:
            return isinstance(self.operands[node], Node)
        is_total = TOTAL.get(node.target)
        if (
            is_total is None
            or not is_total(node)
            or not all(self._covers(each, given) for each in node.all_input_nodes)
        ):
            return False
        return not isinstance(node.meta["val"], torch.Tensor) or _symbols_of(node) <= self.symbols

    def moved(self, argument: Any, apply: Apply, given: Mapping[Node, Any] = {}) -> Any:  # read only
        """The argument with what stands for its nodes around the body; `covers` has to hold for it."""
        return map_arg(argument, lambda node: self._moved(node, apply, given))

    def _moved(self, node: Node, apply: Apply, given: Mapping[Node, Any]) -> Any:
        if node in given:
            return given[node]
        if node in self.operands:
            return self.operands[node]
        return apply(node, node.target, self.moved(node.args, apply, given))

    def form(self, argument: Any) -> Any:
        """Return the expression of an argument in values around the body; equal expressions have equal values."""
        if isinstance(argument, (list, tuple)):
            return tuple(map(self.form, argument))
        if not isinstance(argument, Node):
            return argument
        if argument in self.operands:
            return self.operands[argument]
        return argument.target, self.form(argument.args)

    def emit(self, like: Node | None, target: Any, args: tuple[Any, ...]) -> Any:
        """Applies a target by a call before the insertion point around the body; what is constant becomes a number."""
        if not _has_nodes(args):
            return target(*args)
        made = call(like or self.node, target, args, graph=self.node.graph)
        known = size_of(made.meta["val"])
        if isinstance(known, int):
            made.graph.erase_node(made)
            return known
        return made


def on_values(like: Node | None, target: Any, args: tuple[Any, ...]) -> Any:
    """Applies a target of numbers to what is known of them."""
    values = fake(args)
    return values[0].shape[values[1]] if target is aten.sym_size.int else target(*values)


def is_known(condition: Any) -> bool:
    """Return True if a condition on sizes holds for all that they may be. No guard is added."""
    return statically_known_true(condition)


def _has_nodes(args: Any) -> bool:
    found: list[Node] = []
    map_arg(args, found.append)
    return bool(found)


def _is_same(given: BodyInput) -> bool:
    """Return True if a number, or the sizes of a tensor, have the same symbols in the body as in the graph around
    it.
    """
    if not isinstance(given.operand, Node):
        return False
    there, here = given.operand.meta["val"], given.placeholder.meta["val"]
    return same_sizes(there, here) if isinstance(here, torch.Tensor) else bool(size_of(there) == size_of(here))


def _symbols_of(node: Node) -> set[sympy.Symbol]:
    val = node.meta["val"]
    sizes: Any = sizes_of(val) if isinstance(val, torch.Tensor) else (size_of(val),)
    found: set[Any] = set()
    return found.union(*(each.free_symbols for each in sizes if is_symbolic(each)))


def _always(node: Node) -> bool:
    return True


def _by_a_number(node: Node) -> bool:
    """Nothing is divided by 0."""
    return type(node.args[1]) is int and node.args[1] != 0


def is_within(x: Node, dim: int, index: Any) -> bool:
    """Return True if an index of a tensor is known to be at least 0 and less than its size."""
    place, size = fake(index), x.meta["val"].shape[dim]
    if not isinstance(place, (int, torch.SymInt)):
        return False
    expr = size_of(place)
    offset = int(expr.as_coeff_Add()[0]) if is_symbolic(expr) else 0  # PyTorch does not conclude t - 1 < n from t < n
    lower = is_known(place >= 0) or (offset > 0 and is_known(place - offset >= 0))
    return lower and (is_known(place < size) or (offset < 0 and is_known(place - offset < size)))


def _selected(node: Node) -> bool:
    """The index is within the axis, from its start or from its end."""
    x, dim, index = node.args
    size = x.meta["val"].shape[dim]  # type: ignore[union-attr, index]  # as its schema says
    return is_within(x, dim, index) or (is_known(fake(index) >= -size) and is_known(fake(index) < 0))  # type: ignore[arg-type]


TOTAL: Mapping[Any, Callable[[Node], bool]] = {
    operator.add: _always,
    operator.sub: _always,
    operator.mul: _always,
    operator.neg: _always,
    operator.floordiv: _by_a_number,
    operator.mod: _by_a_number,
    torch.sym_max: _always,
    torch.sym_sum: _always,
    torch.sym_min: _always,
    aten.sym_size.int: _always,
    aten.expand.default: _always,
    aten.movedim.int: _always,
    aten.movedim.intlist: _always,
    aten.permute.default: _always,
    aten.reshape.default: _always,
    aten.select.int: _selected,
    aten.slice.Tensor: _always,
    aten.squeeze.dim: _always,
    aten.t.default: _always,
    aten.transpose.int: _always,
    aten.unsqueeze.default: _always,
    aten.view.default: _always,
}
"""Arithmetic of numbers and views of tensors, each with what shows that it cannot fail.

A body may never run, and what it would compute from sizes that do not suit it is then not computed.
"""
