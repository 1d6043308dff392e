"""Ops whose result shares the memory of an argument although their schema does not say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from fxport.fx_passes.decompose import decompose, known_decompositions
from fxport.fx_passes.graph import bodies, call, replace
from fxport.fx_passes.passes.branch_writes import changed_operands
from fxport.fx_passes.passes.writes import writes, written

aten = torch.ops.aten

DROPOUTS: Mapping[Any, tuple[int, int]] = {
    op.default: (1, 2) for op in (aten.dropout, aten.feature_dropout, aten.alpha_dropout, aten.feature_alpha_dropout)
}
"""Positions of a dropout's rate and training flag: a dropout that drops nothing returns its argument itself.

PyTorch's fake tensors know this of some, and give a copy for others.
"""


RESHAPED: Mapping[Any, OpOverload] = {
    aten.squeeze_.default: aten.squeeze.default,
    aten.squeeze_.dim: aten.squeeze.dim,
    aten.squeeze_.dims: aten.squeeze.dims,
    aten.unsqueeze_.default: aten.unsqueeze.default,
    aten.transpose_.default: aten.transpose.int,
    aten.t_.default: aten.t.default,
    aten.swapaxes_.default: aten.swapaxes.default,
    aten.swapdims_.default: aten.swapdims.default,
}
"""Ops that give a tensor object other sizes → the view that looks at its memory in the same way."""


def expand_aliases(gm: GraphModule) -> None:
    """Replace such ops by the views that they consist of, in a graph that writes: `einsum("ij->ji", x)` by `permute`.

    Only then does a write through the result, or to the argument, reach the other one. `y.unsqueeze_(0)` becomes
    `unsqueeze` likewise.
    """
    for _, body in bodies(gm):
        expand_aliases(body)
    if not any(writes(node) or changed_operands(node) for node in gm.graph.nodes):
        return
    _reshape_by_views(gm)
    for node in list(gm.graph.nodes):
        if node.target in DROPOUTS and _drops_nothing(node):
            with gm.graph.inserting_before(node):
                replace(node, call(node, aten.alias.default, (node.args[0],)))
    hidden = {node for node in gm.graph.nodes if _is_hidden_view(node)}
    if hidden:
        keep = known_decompositions() - {node.target for node in hidden}
        decompose(gm, keep, only=lambda node: node in hidden)


def _reshape_by_views(gm: GraphModule) -> None:
    """Replace a tensor that is given other sizes in place by a view of it, from there on.

    Given:   %a = relu(%x); %b = unsqueeze_(%a, 0); return (%a, %b)
    Result:  %a = relu(%x); %b = unsqueeze(%a, 0); return (%b, %b)

    An input of the graph keeps the op: its caller would see the sizes.
    """
    order = {node: at for at, node in enumerate(gm.graph.nodes)}
    for node in [node for node in order if node.target in RESHAPED]:
        names = _names_of(node.args[0])
        if names[-1].op == "placeholder":
            continue
        with gm.graph.inserting_before(node):
            view = call(node, RESHAPED[node.target], node.args, dict(node.kwargs), val=node.meta["val"])
        order[view] = order[node]
        for name in names:
            name.replace_all_uses_with(view, lambda user, at=order[node]: order[user] > at)
        replace(node, view)


def _names_of(node: Any) -> list[Node]:
    """Return a node and those before it that stand for the same tensor object, by what wrote to it in place."""
    names = [node]
    while isinstance(node.meta.get("val"), torch.Tensor) and (targets := written(node)):
        node = targets[0]
        names.append(node)
    return names


def _drops_nothing(node: Node) -> bool:
    rate, training = (node.args[place] for place in DROPOUTS[node.target])
    return bool(rate == 0 or training is False)


def _is_hidden_view(node: Node) -> bool:
    """Tell whether the result of an op lies in the memory of an argument, and its schema does not say so."""
    if not isinstance(node.target, OpOverload) or not node.target._can_decompose():
        return False
    if any(each.alias_info is not None for each in (*node.target._schema.arguments, *node.target._schema.returns)):
        return False
    given = [leaf.meta.get("val") for leaf in pytree.tree_leaves((node.args, node.kwargs)) if isinstance(leaf, Node)]
    return bool(_memory(given) & _memory(node.meta.get("val")))


def _memory(values: Any) -> set[int]:
    tensors = [each for each in pytree.tree_leaves(values) if isinstance(each, torch.Tensor)]
    return {each.untyped_storage()._cdata for each in tensors if each.layout is torch.strided}
