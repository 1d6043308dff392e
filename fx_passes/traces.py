"""Decompositions that are traced once for all nodes that are alike, and run again on the fake values of the others."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses import FakeTensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

OWN = ("aten", "prims")
"""Namespaces of PyTorch's operators; Python that users wrote may be another one at each call."""

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)

TOLD = (int, bool, str, bytes, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
"""Types of arguments that are equal where they are of one type and equal; a float may be -0.0 or NaN."""


class Traces:
    """Graphs of the decompositions of PyTorch's operators, by all that a decomposition can see of its arguments.

    That is the operator, its plain arguments, and how each tensor lies in memory: a rule runs on fake tensors, which
    have no values. Graphs that hold tensors or bodies of their own, and those with numbers that are read from data,
    which are new ones each time, are not kept.
    """

    def __init__(self) -> None:
        self._graphs: dict[Hashable, GraphModule | None] = {}

    def of(self, node: Node, trace: Callable[[], GraphModule | None]) -> tuple[GraphModule | None, bool]:
        """Return the graph of a node's decomposition, and whether it is that of another node which is like it."""
        key = _key(node)
        if key is None:
            return trace(), False
        if key in self._graphs:
            return self._graphs[key], True
        graph = trace()
        if graph is None or _is_kept(graph):
            self._graphs[key] = graph
        return graph, False


def _is_kept(graph: GraphModule) -> bool:
    nodes = graph.graph.nodes
    return not any(each.op == "get_attr" or free_unbacked_symbols(each.meta.get("val")) for each in nodes)


def _key(node: Node) -> Hashable | None:
    """Return what nodes with the same decomposition have in common, or None where it cannot be told."""
    if not isinstance(node.target, OpOverload) or node.target.namespace not in OWN:
        return None
    leaves, structure = pytree.tree_flatten((node.args, node.kwargs))
    places: dict[Any, int] = {}
    parts = [_part(leaf, places) for leaf in leaves]
    return None if None in parts else (node.target, structure, *parts)


def _part(leaf: Any, places: dict[Any, int]) -> Hashable | None:
    """Return the part of an argument in the key. `places` numbers nodes and storages: two that are one stay so."""
    if not isinstance(leaf, Node):
        if isinstance(leaf, float):
            return (float, repr(leaf))
        return (type(leaf), leaf) if type(leaf) in TOLD else None
    told = described(leaf.meta.get("val"), places)
    return None if told is None else (places.setdefault(leaf, len(places)), told)


def described(value: Any, places: dict[Any, int]) -> Hashable | None:
    """Return all that code can see of a fake tensor or of a symbolic number; None where it may see more.

    `places` numbers the memory of tensors: of two that share it the numbers are the same.
    """
    if isinstance(value, SYMBOLIC):
        return None if free_unbacked_symbols(value) else (type(value), value.node.expr)
    if type(value) is not FakeTensor or value.layout is not torch.strided or value.constant is not None:
        return None
    if free_unbacked_symbols(value):
        return None
    storage = value.untyped_storage()
    return (
        *(places.setdefault(storage._cdata, len(places)), value.fake_mode, value.dtype, value.device),
        *(value.is_conj(), value.is_neg(), value.requires_grad, type(value.storage_offset())),
        *map(_size, (value.storage_offset(), *value.shape, *value.stride())),
    )


def _size(size: Any) -> Hashable:
    return size.node.expr if isinstance(size, torch.SymInt) else size
