"""Regions that only set a mode become plain nodes of the graph around them."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from fxport.diagnostics import Log
from fxport.fx_passes.base import fx_pass
from fxport.fx_passes.graph import PROVENANCE

hop = torch.ops.higher_order

AUTOCAST = hop.wrap_with_autocast

BODY_ARGUMENT: Mapping[Any, int] = {
    hop.wrap_with_set_grad_enabled: 1,  # (enabled, body, *operands)
    AUTOCAST: 4,  # (device, dtype, enabled, cache_enabled, body, *operands), where it turns autocast off
    hop.strict_mode: 0,  # (body, operands)
    hop.hints_wrapper: 0,  # (body, operands, kwargs, hints=…)
    hop.tag_activation_checkpoint: 0,  # (body, *operands)
    hop.foreach_map: 0,  # (body, *operands)
    hop.invoke_quant: 0,  # (body, *operands, scheme=…): eager PyTorch runs the body as it is
    hop.invoke_quant_packed: 0,  # the same
}
"""Position of the body among the arguments of each higher-order op that does nothing but run it."""


@fx_pass
def inline_regions(gm: GraphModule, log: Log) -> bool:
    """A graph that is only evaluated has no use for gradient modes, strictness or recomputation hints.

    Nor for regions without autocast, where no region has autocast: such a graph is traced again before the passes.

    Given:   %y = wrap_with_set_grad_enabled(False, %body, %x); %z = getitem(%y, 0)
    Result:  the nodes of %body on %x; %z is its first result
    """
    return splice_regions(gm)


def splice_regions(gm: GraphModule, *, autocast: bool = False, within: bool = False) -> bool:
    """Put the nodes of such regions in their places, and return whether there were any.

    Args:
        autocast: Take regions that set autocast as well, of which only the memory of tensors is right afterwards.
        within: The graph is the body of a region that turns autocast on: one that turns it off is none of those.
    """
    found = [node for node in gm.graph.nodes if node.target in BODY_ARGUMENT]
    regions = [node for node in found if autocast or not (node.target is AUTOCAST and (within or node.args[2]))]
    for node in regions:
        position = BODY_ARGUMENT[node.target]
        body = gm.get_submodule(node.args[position].target)
        assert isinstance(body, GraphModule)
        operands = node.args[position + 1 :]
        if len(operands) > 0 and isinstance(operands[0], (tuple, list)):  # (body, operands, …)
            operands = tuple(operands[0])
        splice(node, body, operands)
    return bool(regions)


def splice(node: Node, body: GraphModule, operands: tuple[Any, ...]) -> None:
    """Puts the nodes of `body` in the place of `node`, a call that returns what the body does: a value or a tuple."""
    graph = node.graph
    _adopt_attributes(node.graph.owning_module, body)
    values: dict[Node, Any] = dict(zip(body.graph.find_nodes(op="placeholder"), operands, strict=True))
    with graph.inserting_before(node):
        for inner in body.graph.nodes:
            if inner.op in ("placeholder", "output"):
                continue
            copy = graph.node_copy(inner, lambda n: values[n])
            for key in PROVENANCE:
                if key not in copy.meta and key in node.meta:
                    copy.meta[key] = node.meta[key]
            values[inner] = copy
    results: Any = map_arg(body.graph.output_node().args[0], lambda n: values[n])
    single: Any = results
    if isinstance(single, Node):
        node.replace_all_uses_with(single)
    for user in list(node.users):
        if user.target is operator.getitem:
            result = results[user.args[1]]
            if isinstance(result, Node):
                user.replace_all_uses_with(result)
            graph.erase_node(user)
    graph.erase_node(node)


def _adopt_attributes(owner: GraphModule | None, body: GraphModule) -> None:
    """Bodies may hold bodies and tensors of their own; their names are made unique in the graph around them."""
    assert owner is not None
    for inner in body.graph.find_nodes(op="get_attr"):
        value = operator.attrgetter(inner.target)(body)
        name, number = inner.target.replace(".", "_"), 0
        while hasattr(owner, name):
            number += 1
            name = f"{inner.target.replace('.', '_')}_{number}"
        setattr(owner, name, value)
        inner.target = name
