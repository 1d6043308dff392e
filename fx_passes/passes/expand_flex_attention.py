"""Attention with the user's own score and mask functions, in the ops that it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fxport.diagnostics import Log
from fxport.fx_passes.base import fx_pass
from fxport.fx_passes.graph import PROVENANCE, fake
from fxport.fx_passes.passes.inline_regions import splice
from fxport.fx_passes.trace import attention_graph

flex_attention = torch.ops.higher_order.flex_attention


@fx_pass
def expand_flex_attention(gm: GraphModule, log: Log) -> bool:
    """Scores go through the user's function and the softmax; which blocks need no computing is of no interest.

    Given:   %r = flex_attention(%q, %k, %v, %score, (..., %mask), 0.5, {}, (), ()); %y = getitem(%r, 0)
    Result:  %s = matmul(%q, %k.T); the nodes of %score on %s; the nodes of %mask; %y = matmul(softmax(...), %v)
    """
    nodes = [node for node in gm.graph.nodes if node.target is flex_attention]
    for node in nodes:
        score, mask, operands = _parts(gm, node)
        splice(node, _traced(node, score, mask, operands), tuple(operands))
    return bool(nodes)


def _parts(gm: GraphModule, node: Node) -> tuple[GraphModule, GraphModule, list[Any]]:
    """The functions of scores and of the mask, and what the call gives them besides: q, k, v and captured values."""
    _, _, _, score, blocks, *_ = node.args
    found = [gm.get_submodule(str(each.target)) for each in (score, blocks[-1])]  # type: ignore[union-attr, index]
    return found[0], found[1], [*node.args[:3], *_captured(node, 7), *_captured(node, 8)]  # type: ignore[return-value]


def _captured(node: Node, position: int) -> Sequence[Any]:
    return node.args[position] if len(node.args) > position else ()  # type: ignore[return-value]  # a tuple


def _traced(node: Node, score: GraphModule, mask: GraphModule, operands: Sequence[Any]) -> GraphModule:
    inner = attention_graph(score, mask, len(_captured(node, 7)), node.args[5], fake(list(operands)))
    for each in inner.graph.nodes:  # its own provenance is PyTorch's code
        each.meta = {key: value for key, value in each.meta.items() if key not in PROVENANCE}
    return inner
