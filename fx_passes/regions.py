"""Call of a region of `torch.compiler.nested_compile_region` from which a node came."""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import Node

REGION = "fxport_region"
"""Key in `node.meta["custom"]`, which PyTorch and every pass hand on: the calls that were running, outermost first."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a region: its name, the number of the call, and the user's stack at it as a trace."""

    name: str
    number: int
    trace: str


def note_region(node: Node, call: Call) -> None:
    """The node is inside of this call, which is inside of those known."""
    node.meta["custom"] = {**(node.meta.get("custom") or {}), REGION: (*region_of(node), call)}


def region_of(node: Node) -> tuple[Call, ...]:
    """The calls of regions that a node is inside of, outermost first; none for most nodes."""
    return (node.meta.get("custom") or {}).get(REGION, ())
