"""Draws of random numbers that are alike: one is traced, and the graph of the others is made from its nodes.

A draw from a seed is a dozen operators, which differ among draws of one shape in the key of the call alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from fxport.exporter.capture.patches.traced_once import is_only_trace
from fxport.fx_passes.graph import replace

_LIBRARY = torch.library.Library("fxport", "FRAGMENT")
for _name in ("draw_begins", "draw_ends"):
    _LIBRARY.define(f"{_name}(Tensor tensor, int number) -> Tensor")
_LIBRARY.define("draw_alike(Tensor key, SymInt[] size, ScalarType dtype, int number) -> Tensor")


@torch.library.register_fake("fxport::draw_begins", lib=_LIBRARY)
@torch.library.register_fake("fxport::draw_ends", lib=_LIBRARY)
def _same(tensor: Tensor, number: int) -> Tensor:
    return torch.empty_like(tensor)


@torch.library.register_fake("fxport::draw_alike", lib=_LIBRARY)
def _drawn(key: Tensor, size: Sequence[int], dtype: torch.dtype, number: int) -> Tensor:
    return torch.empty(size, dtype=dtype, device=key.device)


BEGINS, ENDS = torch.ops.fxport.draw_begins.default, torch.ops.fxport.draw_ends.default
"""Marks in a trace: the key that a traced draw is given, and the numbers that it comes to."""

ALIKE = torch.ops.fxport.draw_alike.default
"""A draw like a traced one, with another key."""

OF_VALUE = ("val", "tensor_meta")
"""Keys of `node.meta` that are about the value, and not about the call in which it is computed."""


@dataclass
class Draws:
    """The draws of a trace from one seed, of which one of each kind is traced."""

    traced: dict[Hashable, tuple[int, torch.dtype]] = field(default_factory=dict)

    def drawn(self, kind: Hashable, key: Tensor, like: Tensor, make: Callable[[Tensor], Tensor]) -> Tensor:
        """Draw what `make` draws with a key; in a trace, one draw stands for those like it until `expand`.

        Args:
            kind: Tells what `make` computes beside the shape, such as its limit.
            key: The 64-bit word of the call, an INT64 scalar.
            like: Numbers are drawn in its shape; its values are not read.
            make: Draws with a key.
        """
        if not is_only_trace():
            return make(key)
        alike = kind, str(tuple(like.shape)), like.device  # sizes with one expression are equal
        if alike in self.traced:
            number, dtype = self.traced[alike]
            return ALIKE(key, like.shape, dtype, number)
        number = len(self.traced)
        drawn = ENDS(make(BEGINS(key, number)), number)
        self.traced[alike] = number, drawn.dtype
        return drawn


def expand(gm: GraphModule) -> None:
    """Replace each draw that is like a traced one by copies of its nodes, and drop the marks."""
    begins, ends = ({node.args[1]: node for node in _calls(gm, mark)} for mark in (BEGINS, ENDS))
    between = {number: _between(begin, ends[number]) for number, begin in begins.items()}
    for node in _calls(gm, ALIKE):
        key, _, _, number = node.args
        nodes: dict[Any, Any] = {begins[number]: key}
        with gm.graph.inserting_before(node):
            for each in between[number]:
                nodes[each] = _copy(each, nodes, node)
        replace(node, nodes[ends[number].args[0]])
    for mark in (*ends.values(), *begins.values()):
        given: Any = mark.args[0]
        replace(mark, given)


def _calls(gm: GraphModule, op: Any) -> Sequence[Node]:
    return gm.graph.find_nodes(op="call_function", target=op)


def _between(begin: Node, end: Node) -> Sequence[Node]:
    """Return the nodes between two marks that depend on the first."""
    node, inside, found = begin, {begin}, list[Node]()
    while (node := node.next) is not end:
        if not inside.isdisjoint(node.all_input_nodes):
            inside.add(node)
            found.append(node)
    return found


def _copy(node: Node, nodes: Mapping[Node, Node], call: Node) -> Node:
    """Copy a node for a call, whose place in the user's code it has."""
    new = call.graph.node_copy(node, lambda each: nodes.get(each, each))
    new.meta = {**call.meta, **{key: node.meta[key] for key in OF_VALUE if key in node.meta}}
    return new
