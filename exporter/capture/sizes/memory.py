"""Tensors of a captured graph that share memory: as it was captured, and as eager PyTorch has it at given sizes.

`x.t().flatten()`, `x.reshape(-1)` and `x.contiguous()` are views at some sizes and copies at others. The graph has what
they were in the capture.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from fxport.exporter.capture.sizes.conditions import text_of
from fxport.fx_passes.passes.functionalize import shares_storage, written_by
from fxport.fx_passes.passes.writes import RESHAPING, written
from fxport.fx_passes.sizes import size_of, unfolded

aten = torch.ops.aten

BY_SIZE = frozenset(
    {
        aten.contiguous.default,
        aten.flatten.using_ints,
        aten.ravel.default,
        aten.reshape.default,
        aten.reshape_as.default,
        aten.sum_to_size.default,
        aten.to.device,
        aten.to.dtype,
        aten.to.dtype_layout,
        aten.to.other,
    }
)
"""Ops whose result may be a view or a copy, as sizes and strides are."""

VALUES_LEFT = RESHAPING | {aten.detach_.default, aten.requires_grad_.default}
"""In-place ops that leave the values as they are."""

END = 1 << 60
"""Time at which the results are read, and the values left in the inputs."""

ASKED = "fxport_asked"
"""Key of `node.meta["custom"]`: what Python asked about how the node's value lies in memory."""

Point = tuple[int, ...]
"""A size for each symbol."""


@dataclass(frozen=True, slots=True)
class Event:
    """A write to the value of a node, or a read of it, at some place of the graph."""

    at: int
    node: Node
    by: Node


class Memory:
    """The views, the writes and the reads of one graph."""

    def __init__(self, gm: GraphModule) -> None:
        self.nodes = list(gm.graph.nodes)
        self.index = {node: at for at, node in enumerate(self.nodes)}
        self.source: dict[Node, Node] = {}
        """Node that a node may view: it is a view, or a copy where it is one, of that node."""
        for node in self.nodes:
            if (source := self._source(node)) is not None:
                self.source[node] = source
        self.groups = self._groups()
        self.writes = list(self._writes())
        self._shared: dict[Node, bool] = {}

    def _source(self, node: Node) -> Node | None:
        if node.op != "call_function":
            return None
        first = node.args[0] if node.args else None
        if node.target is operator.getitem:
            return first if first in self.source and _is_list(first) else None
        if targets := written(node):
            return targets[0] if isinstance(node.meta.get("val"), torch.Tensor) else None
        if not isinstance(first, Node) or not isinstance(node.target, torch._ops.OpOverload):
            return None
        aliases = any(each.alias_info is not None for each in node.target._schema.returns)
        return first if aliases or node.target in BY_SIZE else None

    def _groups(self) -> dict[Node, Node]:
        """The first node of those that may look at the same memory, at whatever sizes."""
        first: dict[Node, Node] = {}
        for node in self.nodes:
            first[node] = first[self.source[node]] if node in self.source else node
        return first

    def _writes(self) -> Iterator[Event]:
        for node in self.nodes:
            if node.op == "call_function" and node.target not in VALUES_LEFT:
                yield from (Event(self.index[node], target, node) for target in [*written(node), *written_by(node)])

    def reads(self) -> Iterator[Event]:
        """Yield the uses of values other than by views; at the end, those of the values left in the inputs."""
        for node in self.nodes:
            if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor):
                yield Event(END, node, node)
            elif node.op == "output" or self._computes(node):
                at = END if node.op == "output" else self.index[node]
                yield from (Event(at, each, node) for each in node.all_input_nodes)

    def _computes(self, node: Node) -> bool:
        if node.op != "call_function" or (node in self.source and not written(node)):
            return False
        leaves = pytree.tree_leaves(node.meta.get("val"))
        return any(isinstance(leaf, torch.Tensor) for leaf in leaves) or not leaves

    @property
    def varying(self) -> Sequence[Node]:
        """The nodes that may be views at some sizes and copies at others, with a write to the one or the other side."""
        last = {self.groups[event.node]: event.at for event in self.writes}
        return [
            node
            for node in self.source
            if node.target in BY_SIZE
            and last.get(self.groups[node], -1) > self.index[node]
            and _symbols(node.args[0].meta["val"])  # type: ignore[union-attr]  # a node
        ]

    def captured(self, node: Node) -> Node:
        """The node that owns the memory of another one in the captured graph."""
        while node in self.source and self._is_shared(node):
            node = self.source[node]
        return node

    def _is_shared(self, node: Node) -> bool:
        if node not in self._shared:
            taken = node.target is operator.getitem or bool(written(node))
            self._shared[node] = taken or shares_storage(node)
        return self._shared[node]

    def descends(self, node: Node, ancestor: Node) -> bool:
        """Tell whether a node is another one, or may look at what that gives."""
        while node is not ancestor and node in self.source:
            node = self.source[node]
        return node is ancestor

    def before(self, node: Node, at: int) -> Node:
        """Return the node from which a node is made that existed before: itself, or its source by views and copies."""
        while node in self.source and self.index[node] > at:
            node = self.source[node]
        return node


class Eager:
    """The memory of some nodes at given sizes, as eager PyTorch would have it."""

    def __init__(self, memory: Memory, wanted: Sequence[Node], symbols: Sequence[sympy.Symbol]) -> None:
        groups = {memory.groups[node] for node in wanted}
        self.memory = memory
        self.nodes = [node for node in memory.nodes if memory.groups[node] in groups and _is_tensor(node)]
        self.compute = {expr: _function(expr, symbols) for node in self.nodes for expr in _expressions(node, memory)}
        self.mode = FakeTensorMode()

    def at(self, point: Point) -> Mapping[Node, Any] | None:
        """The values without memory of all nodes; None at sizes at which one of them cannot be computed."""
        sizes = {expr: compute(*point) for expr, compute in self.compute.items()}
        values: dict[Node, Any] = {}
        with self.mode, torch.no_grad():
            for node in self.nodes:
                try:
                    values[node] = self._value(node, values, sizes)
                except (RuntimeError, ValueError, IndexError, ArithmeticError):
                    return None  # nor can the model run at these sizes
        return values

    def _value(self, node: Node, values: Mapping[Node, Any], sizes: Mapping[Any, int]) -> Any:
        source = self.memory.source.get(node)
        if source is None:
            return _concrete(node.meta["val"], sizes)
        if written(node) and node.target not in RESHAPING:
            return values[source]

        def plain(leaf: Any) -> Any:
            if not isinstance(leaf, Node):
                return leaf
            value = values.get(leaf, leaf.meta["val"])
            return value if leaf in values else _concrete(value, sizes)

        args: Any = map_arg(node.args, plain)
        kwargs: Any = map_arg(dict(node.kwargs), plain)
        if node.target in RESHAPING:  # the tensor that it is called on keeps its sizes here
            args = (args[0].detach(), *args[1:])
        return node.target(*args, **kwargs)  # type: ignore[operator]  # an operator


def _concrete(value: Any, sizes: Mapping[Any, int]) -> Any:
    """A fake tensor, or a number, at these sizes."""

    def number(each: Any) -> Any:
        expr = size_of(each)
        return sizes[expr] if isinstance(expr, sympy.Basic) else expr

    def made(each: Any) -> Any:
        if not isinstance(each, torch.Tensor):
            return number(each)
        shape, stride = ([number(size) for size in each.shape], [number(step) for step in each.stride()])
        return torch.empty_strided(shape, stride, dtype=each.dtype, device=each.device)

    return pytree.tree_map(made, value)


def _expressions(node: Node, memory: Memory) -> Iterator[Any]:
    """The symbolic sizes that must be known to compute a node: its own if it looks at no other, else its arguments'."""
    given = [node] if node not in memory.source else node.all_input_nodes
    for each in given:
        for leaf in pytree.tree_leaves(each.meta.get("val")):
            numbers = (*leaf.shape, *leaf.stride()) if _is_strided(leaf) else (leaf,)
            yield from (expr for expr in map(size_of, numbers) if isinstance(expr, sympy.Basic))


def _function(expr: sympy.Basic, symbols: Sequence[sympy.Symbol]) -> Callable[..., int]:
    names = {symbol: f"n{i}" for i, symbol in enumerate(symbols)}
    return eval(f"lambda {', '.join(names.values())}: int({text_of(unfolded(expr), names)})", {"math": math})


def symbols_of(nodes: Sequence[Node]) -> list[sympy.Symbol]:
    """The symbols in the sizes and strides of these nodes."""
    found: set[Any] = set()
    for node in nodes:
        found |= _symbols(node.meta.get("val"))
    return sorted(found, key=str)


def _symbols(value: Any) -> set[Any]:
    found: set[Any] = set()
    for leaf in pytree.tree_leaves(value):
        numbers = (*leaf.shape, *leaf.stride()) if _is_strided(leaf) else (leaf,)
        for expr in map(size_of, numbers):
            if isinstance(expr, sympy.Basic):
                found |= unfolded(expr).free_symbols
    return found


def _is_strided(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _is_tensor(node: Node) -> bool:
    return any(map(_is_strided, pytree.tree_leaves(node.meta.get("val"))))


def _is_list(node: Any) -> bool:
    return isinstance(node, Node) and isinstance(node.meta.get("val"), (list, tuple))


def memory_of(value: torch.Tensor) -> int:
    """Return what tells whether two tensors share memory."""
    return value.untyped_storage()._cdata
