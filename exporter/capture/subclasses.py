"""Weights that are tensors around others, such as quantized ones of torchao: what they hold becomes the weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputSpec, TensorArgument
from torch.fx import Node

INNER = torch.ops.export.access_subclass_inner_tensor.default
"""Op of torch.export for `weight.qdata`: (the subclass, the name of the attribute) → the tensor inside of it."""


def weights_opened(
    exported: ExportedProgram, tensors: Mapping[str, torch.Tensor]
) -> tuple[list[tuple[InputSpec, Node]], dict[str, torch.Tensor]]:
    """Return a program's input specs, placeholders and weights, with subclasses replaced by what they hold.

    The tensor that a weight "0.weight" holds as `qdata` is the weight "0.weight.qdata"; a subclass may hold others.
    """
    graph = exported.graph_module.graph
    placeholders = graph.find_nodes(op="placeholder")
    specs = dict(zip(placeholders, exported.graph_signature.input_specs, strict=True))
    held, inner_of = dict(tensors), dict[tuple[Node, str], Node]()
    for node in graph.find_nodes(op="call_function", target=INNER):
        outer, attribute = node.args
        spec = specs.get(outer)
        if spec is None or spec.target not in held:
            continue  # it was made by the graph
        if (outer, attribute) not in inner_of:
            inner = inner_of[outer, attribute] = _placeholder(outer, attribute, node)
            target = f"{spec.target}.{attribute}"
            specs[inner] = InputSpec(spec.kind, TensorArgument(inner.name), target, spec.persistent)
            held[target] = getattr(held[spec.target], attribute)
        node.replace_all_uses_with(inner_of[outer, attribute])
        graph.erase_node(node)
    for outer in {outer for outer, _ in inner_of if not outer.users}:
        held.pop(specs[outer].target or "")
        graph.erase_node(outer)
    return [(specs[node], node) for node in graph.find_nodes(op="placeholder")], held


def _placeholder(outer: Node, attribute: str, node: Node) -> Node:
    with outer.graph.inserting_after(outer):
        inner = outer.graph.placeholder(f"{outer.name}_{attribute}")
    inner.meta = {**outer.meta, "val": node.meta["val"]}
    return inner
