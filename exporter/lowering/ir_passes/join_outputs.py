"""Equal nodes with different outputs left out: ONNX Runtime takes one for the other, and misses outputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping

import onnx_ir as ir

from fxport.exporter.lowering.ir_passes.patterns import constant_of, describe, put_in_place
from fxport.exporter.lowering.ir_passes.share_equal_nodes import RANDOM

LARGEST_CONSTANT = 64
"""Elements of a constant up to which another one with the same values is taken for the same."""


def join_outputs(graph: ir.Graph) -> bool:
    """One node has all outputs that several equal ones have.

    ONNX Runtime keeps the first of equal nodes, also where it lacks an output of a later one (1.31.1: "Argument type
    mismatch when adding edge").

    Given:   %u, , %i = Unique(%x); %v, , , %c = Unique(%x)
    Result:  %u, , %i, %c = Unique(%x)
    """
    numbers: dict[ir.Value, Hashable] = {}
    groups: defaultdict[Hashable, list[ir.Node]] = defaultdict(list)
    for node in graph:
        group = groups[_key(node, numbers)]
        group.append(node)
        # By the first of the group, not by its key: that one would hold the keys of all nodes before it.
        numbers.update(((output, (group[0], index)) for index, output in enumerate(node.outputs)))
    changed = [_join(group) for group in groups.values()]
    return any(changed)


def _key(node: ir.Node, numbers: Mapping[ir.Value, Hashable]) -> Hashable:
    """Equal for nodes that give the same; a node's own for one that is random, or has bodies."""
    attributes = []
    for name, attribute in sorted(node.attributes.items()):
        plain = attribute.value if not isinstance(attribute.value, list) else tuple(attribute.value)
        if not isinstance(plain, (int, float, str, bytes, tuple)):
            return node
        attributes.append((name, plain))
    if node.op_type in RANDOM or node.op_type.startswith("Random"):
        return node
    inputs = tuple(_number(value, numbers) for value in node.inputs)
    return (node.domain, node.op_type, node.overload, tuple(attributes), inputs)


def _number(value: ir.Value | None, numbers: Mapping[ir.Value, Hashable]) -> Hashable:
    array = constant_of(value)
    if array is not None and array.size <= LARGEST_CONSTANT:
        return (str(array.dtype), array.shape, array.tobytes())
    return numbers.get(value, value) if value is not None else None


def _join(nodes: list[ir.Node]) -> bool:
    """Give the first of equal nodes the outputs of all, if they differ in those that they have."""
    present = [frozenset(i for i, output in enumerate(node.outputs) if _is_there(output)) for node in nodes]
    if len(set(present)) < 2:
        return False
    first = nodes[0]
    graph = first.graph
    assert graph is not None
    count = max(len(node.outputs) for node in nodes)
    joined = ir.Node(
        first.domain,
        first.op_type,
        first.inputs,
        first.attributes.values(),
        overload=first.overload,
        num_outputs=count,
        name=first.name,
        metadata_props=first.metadata_props,
    )
    graph.insert_before(first, joined)
    for slot, new in enumerate(joined.outputs):
        named = [node.outputs[slot] for node in nodes if slot < len(node.outputs) and node.outputs[slot].name]
        if not named:
            new.name = ""
            continue
        new.name = f"{named[0].name}.joined"  # also of one that nothing reads: the first output is never left out
        describe(new, named[0])
        for old in filter(_is_there, named):
            if not put_in_place(old, new):
                _copy(old, new)
    for node in nodes:
        graph.remove(node, safe=True)
    return True


def _is_there(output: ir.Value) -> bool:
    return bool(output.name) and (bool(output.uses()) or output.is_graph_output())


def _copy(old: ir.Value, new: ir.Value) -> None:
    """Make a second output of the graph of one value."""
    node = old.producer()
    assert node is not None
    assert node.graph is not None
    identity = ir.node("Identity", [new], name=f"{node.name}.copy", metadata_props=dict(node.metadata_props))
    node.graph.insert_after(node, identity)
    put_in_place(old, identity.outputs[0])
