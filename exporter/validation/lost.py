"""The operation of the captured graph that a model lost: without it, PyTorch gives what the model gives.

A pass that drops an operation, or takes it for equal to another one, leaves no node to be blamed: what differs is the
first operation that reads its result. For each operation that has no value in the model, another value is put in its
place, one of its operands or of the values that the model reads there, and the graph runs on from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.fx import Node
from torch.fx.node import map_arg

from fxport.exporter.validation.intermediates import Intermediates, NodeFailed, key_of, keyed, run_node
from fxport.exporter.weights.arrays import as_array

Alike = Callable[[np.ndarray, np.ndarray], bool]


def lost_node(
    values: Intermediates, key: str, known: Collection[str], read: Collection[str], got: np.ndarray | None, alike: Alike
) -> str | None:
    """The name of the node without which the value of `key` is `got`; None where there is none.

    Args:
        values: runs the captured graph on the inputs that show the difference.
        key: the value that differs.
        known: the values that the model has.
        read: those of them that the model makes the value of.
        got: what it makes of PyTorch's values of those; None where it fails.
        alike: tells whether two arrays are the same but for rounding.
    """
    nodes = list(values.program.graph_module.graph.nodes)
    end = next((node for node in reversed(nodes) if key in (node.name, node.name + _index(key))), None)
    between = _between(end, known) if end is not None else set()
    if end is None or not between:
        return None
    held = _held(values, {source for node in (end, *between) for source in node.all_input_nodes} | _named(nodes, read))
    order = [node for node in nodes if node in between or node is end]
    for node in order[:-1]:
        for other in _in_its_place(node, held, read, between):
            try:
                found = dict(keyed(end, _run(order, held | {node: held[other]}, node))).get(key)
            except NodeFailed:
                if got is None:
                    return node.name
                continue
            if found is not None and got is not None and alike(as_array(found), got):
                return node.name
    return None


def _index(key: str) -> str:
    """The ending of a key that names one of several results."""
    name, dot, index = key.rpartition(".")
    return dot + index if index.isdecimal() and name else ""


def _named(nodes: Collection[Node], keys: Collection[str]) -> set[Node]:
    return {node for node in nodes if node.op == "call_function" and key_of(node) in keys}


def _between(end: Node, known: Collection[str]) -> set[Node]:
    """The nodes that a value is made of, back to those that the model has."""
    found: set[Node] = set()
    pending = list(end.all_input_nodes)
    while pending:
        node = pending.pop()
        if node not in found and node.op == "call_function" and key_of(node) not in known:
            found.add(node)
            pending += node.all_input_nodes
    return found


def _held(values: Intermediates, nodes: Collection[Node]) -> dict[Node, Any]:
    """PyTorch's results of these nodes."""
    found: dict[Node, Any] = {}

    def note(node: Node, plain: Any, _exact: Any) -> None:
        if node in nodes:
            found[node] = plain

    values.watch(note)
    return values.sources(nodes) | found


def _in_its_place(
    node: Node, held: Mapping[Node, Any], read: Collection[str], between: Collection[Node]
) -> Iterator[Node]:
    """Its operands, and the values of its type and sizes that the model reads where it stood."""
    yield from (source for source in node.all_input_nodes if isinstance(held.get(source), torch.Tensor))
    own = node.meta.get("val")
    for other, value in held.items():
        if other in between or key_of(other) not in read or other in node.all_input_nodes:
            continue
        if _kind_of(value) is not None and _kind_of(value) == _kind_of(own):
            yield other


def _kind_of(value: Any) -> tuple[torch.dtype, int] | None:
    return (value.dtype, value.dim()) if isinstance(value, torch.Tensor) else None


def _run(order: Collection[Node], held: Mapping[Node, Any], replaced: Node) -> Any:
    """The result of the last of these nodes, where one is replaced by what is held for it. Raises NodeFailed."""
    results: dict[Node, Any] = dict(held)
    value = None
    for node in order:
        if node is not replaced:
            args, kwargs = map_arg((node.args, node.kwargs), results.__getitem__)
            value = results[node] = run_node(node, args, kwargs)
    return value
