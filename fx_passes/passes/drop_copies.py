"""Copies, detachments and casts to what a value already is."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from fxport.diagnostics import Log
from fxport.fx_passes.base import fx_pass
from fxport.fx_passes.graph import replace
from fxport.fx_passes.sizes import same_sizes

aten, prims = torch.ops.aten, torch.ops.prims

COPIES = frozenset(
    {
        aten.alias.default,
        aten.alias_copy.default,
        aten.clone.default,
        aten.contiguous.default,
        aten.detach.default,
        aten.detach_copy.default,
        aten.lift.default,
        aten.lift_fresh.default,
        aten.lift_fresh_copy.default,
        aten.resolve_conj.default,
        aten.resolve_neg.default,
        aten.positive.default,
        aten.to.device,
        aten.to.dtype,
        aten.to.dtype_layout,
        aten.to.other,
        aten._to_copy.default,
        aten.type_as.default,
        aten.expand.default,
        aten.expand_as.default,
        aten.view.default,
        aten.reshape.default,
        aten._unsafe_view.default,
        aten.slice.Tensor,
        aten.dropout.default,
        aten.feature_dropout.default,
        aten.alpha_dropout.default,
        aten.feature_alpha_dropout.default,
        aten.native_dropout.default,
        prims.view_of.default,
    }
)
"""Ops that return their first argument's values wherever dtype and sizes did not change."""

DROPOUTS = frozenset(
    {aten.dropout.default, aten.feature_dropout.default, aten.alpha_dropout.default, aten.feature_alpha_dropout.default}
)


@fx_pass
def drop_copies(gm: GraphModule, log: Log) -> bool:
    """ONNX values never change, so a copy is its source.

    Given:   %b = clone(%a); %c = slice_scatter(%x, %b, 0, 0, 9223372036854775807); %d = relu(%c)
    Result:  %d = relu(%a)
    """
    changed = False
    for node in list(gm.graph.nodes):
        source = _source(node)
        if source is not None:
            replace(node, source)
            changed = True
    return changed


def _source(node: Node) -> Node | None:
    """The argument whose values a node returns unchanged; None if it does more."""
    if node.target in COPIES and _is_copy(node):
        return node.args[0]  # type: ignore[return-value]  # these ops have a tensor first
    if node.target is aten.slice_scatter.default and _step(node, 5) == 1 and _same_type(node.args[1], node):
        return node.args[1]  # type: ignore[return-value]  # all of it is overwritten
    return None


def _step(node: Node, position: int) -> object:
    return node.args[position] if len(node.args) > position else node.kwargs.get("step", 1)


def _same_type(a: Any, b: Node) -> bool:
    if not isinstance(a, Node):
        return False
    x, y = a.meta["val"], b.meta["val"]
    return x.dtype == y.dtype and same_sizes(x, y)


def _is_copy(node: Node) -> bool:
    """Same dtype and, symbol for symbol, the same sizes as its first argument; a dropout only where it is off."""
    first: Any = node.args[0]
    source, result = first.meta.get("val") if isinstance(first, Node) else None, node.meta.get("val")
    if not isinstance(source, torch.Tensor) or not isinstance(result, torch.Tensor):
        return False
    if node.target in DROPOUTS and node.args[1] != 0.0 and node.args[2]:
        return False
    if node.target is aten.slice.Tensor and _step(node, 4) != 1:
        return False
    return source.dtype == result.dtype and same_sizes(source, result)
