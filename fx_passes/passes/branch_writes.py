"""Writes in the branches of a condition: the branches return the new values, and the graph around them goes on with."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fxport.fx_passes.graph import call
from fxport.fx_passes.program import MUTATED

CONDITION = torch.ops.higher_order.cond


def branches_of(node: Node) -> list[GraphModule]:
    """The bodies of a condition; none for any other node."""
    if node.target is not CONDITION:
        return []
    owner: Any = node.graph.owning_module
    return [owner.get_submodule(branch.target) for branch in node.args[1:3]]  # type: ignore[union-attr]


def changed_operands(node: Node) -> list[int]:
    """The operands, by their positions, to whose placeholders a branch has been found to write."""
    found = set()
    for branch in branches_of(node):
        names = branch.graph.output_node().meta.get(MUTATED, ())
        placeholders = branch.graph.find_nodes(op="placeholder")
        found |= {index for index, each in enumerate(placeholders) if each.name in names}
    return sorted(found)


def return_new_values(node: Node) -> list[Node]:
    """Makes both branches return what they leave in the changed operands, and gives these results, in order.

    A branch that does not write to one returns it as it is.
    """
    changed = changed_operands(node)
    operands: Any = node.args[3]
    for branch in branches_of(node):
        output = branch.graph.output_node()
        names = output.meta.pop(MUTATED, ())
        results: Any = output.args[0]
        own = len(results) - len(names)
        new = dict(zip(names, results[own:], strict=True))
        placeholders = branch.graph.find_nodes(op="placeholder")
        output.args = ((*results[:own], *(new.get(placeholders[i].name, placeholders[i]) for i in changed)),)
    values, first = [operands[i].meta["val"] for i in changed], len(node.meta["val"])
    node.meta["val"] = (*node.meta["val"], *values)
    with node.graph.inserting_after(node):
        made = [
            call(node, operator.getitem, (node, first + number), val=value)
            for number, value in reversed(list(enumerate(values)))
        ]
    return made[::-1]
