"""Execution provider of each node, as ONNX Runtime itself assigned it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fxport.ort_runner.child import ChildSession
from fxport.ort_runner.model_file import NodeRecord
from fxport.ort_runner.providers import AUTO, PROVIDERS
from fxport.ort_runner.session import session_on

RECORD = {"session.record_ep_graph_assignment_info": "1"}
_NAMES = {provider.ort_name: name for name, provider in PROVIDERS.items()}


@dataclass(frozen=True, slots=True)
class Placed:
    """One node, after ONNX Runtime has inlined functions, and where it runs."""

    node: str
    op: str
    domain: str
    provider: str


def copies(nodes: Sequence[NodeRecord], placed: Sequence[Placed]) -> tuple[str, ...]:
    """The values of a model's file that are made on one provider and used on another, each way."""
    where = {node.node: node.provider for node in placed}
    maker = {output: where[node.name] for node in nodes if node.name in where for output in node.outputs}
    used = ((name, where[node.name]) for node in nodes if node.name in where for name in node.inputs)
    return tuple(dict.fromkeys(name for name, provider in used if maker.get(name, provider) != provider))


def placement_alone(model_path: str | os.PathLike[str], provider: str = AUTO) -> tuple[Placed, ...]:
    """As `placement`, in a process of its own, which is stopped if it does not end. Raises the same."""
    with ChildSession(Path(model_path), provider) as child:
        reply, _ = child.anew({"do": "place"})
    return tuple(Placed(*row) for row in reply["nodes"])


def placement(model_path: str | os.PathLike[str], provider: str = AUTO) -> tuple[Placed, ...]:
    """The assignment of a session on `provider`. Runs nothing.

    Raises `Failure` if the model cannot be opened, ValueError for an unknown provider, one that does not work here, or
    an ONNX Runtime that does not tell (before 1.24).
    """
    session, _ = session_on(provider, Path(model_path), RECORD)
    ask = getattr(session, "get_provider_graph_assignment_info", None)
    if ask is None:
        raise ValueError("this ONNX Runtime does not tell where its nodes run: 1.24 or later does")
    return tuple(
        Placed(node.name, node.op_type, node.domain, _NAMES.get(name := str(group.ep_name), name))
        for group in ask()
        for node in group.get_nodes()
    )
