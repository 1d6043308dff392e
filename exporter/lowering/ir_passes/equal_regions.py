"""Equality of nodes of one graph: by their form, their inputs and their users."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir

SIZES = frozenset({ir.DataType.INT64, ir.DataType.BOOL})
"""Types of what is computed of sizes."""


def nested(nodes: Sequence[ir.Node]) -> Iterator[ir.Node]:
    """Nodes with those in the bodies that they hold."""
    for node in nodes:
        yield node
        for attribute in node.attributes.values():
            for body in _bodies(attribute):
                yield from nested(list(body))


def _bodies(attribute: Any) -> Sequence[ir.Graph]:
    if attribute.type == ir.AttributeType.GRAPH:
        return [attribute.as_graph()]
    return attribute.as_graphs() if attribute.type == ir.AttributeType.GRAPHS else []


class Reader:
    """Writes down nodes by their places among each other; `reads` are the values of outside, as they are met.

    Nodes of equal forms do the same with what they read.
    """

    def __init__(self) -> None:
        self.reads: list[ir.Value] = []
        self._numbers: dict[ir.Value, int] = {}
        self._outside: dict[ir.Value, int] = {}

    def form_of(self, nodes: Sequence[ir.Node]) -> tuple[Any, ...]:
        """The form of nodes in the order of their graph; equal for equal ones, and hashable."""
        return tuple(self._node(node) for node in nodes)

    def _node(self, node: ir.Node) -> tuple[Any, ...]:
        inputs = tuple(None if value is None else self._value(value) for value in node.inputs)
        attributes = tuple((name, self._attribute(each)) for name, each in sorted(node.attributes.items()))
        for value in node.outputs:
            self._numbers[value] = len(self._numbers)
        return (*node.op_identifier(), inputs, attributes, len(node.outputs))

    def _value(self, value: ir.Value) -> tuple[str, int]:
        if value in self._numbers:
            return "own", self._numbers[value]
        if value not in self._outside:
            self._outside[value] = len(self.reads)
            self.reads.append(value)
        return "read", self._outside[value]

    def _attribute(self, attribute: Any) -> Any:
        if attribute.type == ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            return tensor.dtype, tuple(tensor.shape), tensor.tobytes()
        bodies = _bodies(attribute)
        if bodies:
            return tuple(self._body(body) for body in bodies)
        value = attribute.value
        return attribute.type, tuple(value) if isinstance(value, (list, tuple)) else value

    def _body(self, body: ir.Graph) -> tuple[Any, ...]:
        for value in (*body.inputs, *body.initializers.values()):
            self._numbers[value] = len(self._numbers)
        held = tuple(each.const_value.tobytes() for each in body.initializers.values() if each.const_value is not None)
        nodes = self.form_of(list(body))
        return len(body.inputs), held, nodes, tuple(self._value(value) for value in body.outputs)


def reads_of(nodes: Sequence[ir.Node]) -> list[ir.Value]:
    """The values that nodes, and the bodies that they hold, read of outside."""
    reader = Reader()
    reader.form_of(nodes)
    return reader.reads


def escaping(nodes: Sequence[ir.Node]) -> list[tuple[int, int]]:
    """The results that are used outside: (node, output) by their numbers."""
    own = set(nested(nodes))
    return [
        (number, index)
        for number, node in enumerate(nodes)
        for index, value in enumerate(node.outputs)
        if value.is_graph_output() or any(use.node not in own for use in value.uses())
    ]


def is_convex(order: Mapping[ir.Node, int], nodes: Sequence[ir.Node]) -> bool:
    """Return True if no node outside depends on some of the nodes and feeds others: only then can they become one
    node.
    """
    own, reached = set(nodes), set[ir.Node]()
    first, last = order[nodes[0]], order[nodes[-1]]
    for node in list(order)[first : last + 1]:
        producers = {producer for value in reads_of([node]) if (producer := value.producer()) is not None}
        if node in own:
            if producers & reached:
                return False
        elif producers & (own | reached):
            reached.add(node)
    return True


def shared(
    nodes: Sequence[ir.Node], siblings: Mapping[ir.Node, Any], holders: Mapping[ir.Node, ir.Node]
) -> set[ir.Node]:
    """Return the nodes of a call that every other call of the region also reads: equal nodes have become one.

    They depend on nothing else of the call. `siblings` tells of which call each node is; `holders` the node of the main
    graph that a node of a body is in.
    """
    own = set(nodes)
    alone: set[ir.Node] = set()
    for node in nodes:
        producers = {value.producer() for value in reads_of([node])}
        if not producers & (own - alone):
            alone.add(node)
    found = {node for node in alone if _is_for_all(node, own, siblings, holders)}
    for node in reversed(nodes):
        if node in found:
            found |= {producer for value in reads_of([node]) if (producer := value.producer()) in own}  # type: ignore[misc]
    return found


def _is_for_all(
    node: ir.Node, own: Collection[ir.Node], siblings: Mapping[ir.Node, Any], holders: Mapping[ir.Node, ir.Node]
) -> bool:
    users = {holders.get(use.node, use.node) for value in node.outputs for use in value.uses()} - set(own)
    calls = {siblings[user] for user in users if user in siblings}
    return len(calls) > 1 or (len(calls) == 1 and all(_is_size(value) for value in node.outputs))


def _is_size(value: ir.Value) -> bool:
    return value.dtype in SIZES and value.shape is not None and len(value.shape) < 2
