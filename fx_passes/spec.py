"""Specification of a normalized graph. A violation is a fault of fxport, and names the node."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch.fx import GraphModule, Node

from fxport.diagnostics.errors import FxportError
from fxport.fx_passes.graph import bodies


class SpecError(FxportError):
    """A pass left something in the graph that lowering must not see. This is a fault of fxport's own."""


def _is_functional(node: Node) -> bool:
    return not (isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable)


def _has_value(node: Node) -> bool:
    return node.op not in ("placeholder", "call_function") or "val" in node.meta


def _is_known_kind(node: Node) -> bool:
    return node.op in ("placeholder", "get_attr", "call_function", "output")


SPEC: Mapping[str, Callable[[Node], bool]] = {
    "only placeholders, attributes, function calls and one output": _is_known_kind,
    "no op writes to its arguments": _is_functional,
    "every value is known by its fake tensor": _has_value,
}
"""The legal graph, as a table: each row a sentence and the test of it on one node."""


def check(gm: GraphModule) -> None:
    """Raises `SpecError` at the first node, in the graph or in a body, that the table does not allow."""
    for node in gm.graph.nodes:
        for sentence, holds in SPEC.items():
            if not holds(node):
                raise SpecError(f"{sentence}: breached by '{node.format_node()}'")
    for _, body in bodies(gm):
        check(body)
