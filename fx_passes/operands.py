"""Operators with bodies, and the operands that the bodies are given whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fxport.fx_passes.graph import PROVENANCE
from fxport.fx_passes.scans import BodyInput, body_of

hop = torch.ops.higher_order

WHOLE: Mapping[Any, tuple[tuple[int, ...], int]] = {
    hop.cond: ((1, 2), 3),
    hop.scan: ((0,), 3),
    hop.while_loop: ((0, 1), 3),
}
"""Positions of the bodies among the arguments, and of the operands that are the last inputs of each body."""


@dataclass
class Bodies:
    """An operator, its bodies, and for each of them its inputs that are operands of the operator as they are."""

    node: Node
    bodies: list[GraphModule]
    whole: list[list[BodyInput]]

    def add(self, operand: Node, like: Node) -> list[Node]:
        """Gives the bodies another operand, for a node `like` of one of them, and returns a placeholder of each."""
        placeholders = []
        for body, inputs in zip(self.bodies, self.whole, strict=True):
            last = body.graph.find_nodes(op="placeholder")[-1:]
            with body.graph.inserting_after(*last) if last else body.graph.inserting_before():
                placeholder = body.graph.placeholder(f"{operand.name}_whole")
            placeholder.meta.update({key: like.meta[key] for key in PROVENANCE if key in like.meta})
            placeholder.meta["val"] = operand.meta["val"]
            inputs.append(BodyInput(operand, placeholder))
            placeholders.append(placeholder)
        self._commit()
        return placeholders

    def drop_unused(self) -> None:
        """Takes operands back that no body reads."""
        for position in reversed(range(len(self.whole[0]))):
            inputs = [each[position] for each in self.whole]
            if not any(each.placeholder.users for each in inputs):
                for body, each in zip(self.bodies, inputs, strict=True):
                    body.graph.erase_node(each.placeholder)
                for each in self.whole:
                    del each[position]
        self._commit()

    def _commit(self) -> None:
        _, place = WHOLE[self.node.target]
        self.node.update_arg(place, tuple(each.operand for each in self.whole[0]))


def bodies_with_operands(gm: GraphModule) -> Iterator[Bodies]:
    """The operators of a graph with bodies that are theirs alone."""
    for node in gm.graph.nodes:
        if node.op != "call_function" or node.target not in WHOLE or len(node.args) <= WHOLE[node.target][1]:
            continue
        places, whole = WHOLE[node.target]
        bodies = [body for place in places if (body := body_of(gm, node.args[place])) is not None]
        if len(bodies) == len(places):
            yield Bodies(node, bodies, [_last(body, node.args[whole]) for body in bodies])


def _last(body: GraphModule, operands: Any) -> list[BodyInput]:
    names = body.graph.find_nodes(op="placeholder")
    return [BodyInput(*each) for each in zip(operands, names[len(names) - len(operands) :], strict=True)]
