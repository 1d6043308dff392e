"""The opset of operators whose newest version ONNX Runtime's CUDA provider has no kernel for."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir
from onnx import defs

from fxport.exporter.lowering.ir_passes.insert_casts import binding_of, is_legal

OLDER_OPSET = 21
"""The last before opset 22, which gave many operators a new version that only takes bfloat16 as well."""

NO_CUDA_KERNEL_SINCE_22 = frozenset({"MaxPool", "Elu", "Selu", "ThresholdedRelu"})
"""Measured in ONNX Runtime 1.31.1: at opset 22 to 24 these run on the CPU, with a copy before and after each."""


class OlderOpset(ir.passes.InPlacePass):
    """Declare opset 21 where that gives an operator its CUDA kernel, and all nodes are the same there.

    Given:   <opset 23> %y = MaxPool(%x)
    Result:  <opset 21> %y = MaxPool(%x)
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        opset = model.opset_imports.get("", OLDER_OPSET)
        nodes = [node for node in _nodes(model) if not node.domain]
        gains = any(node.op_type in NO_CUDA_KERNEL_SINCE_22 for node in nodes)
        if opset <= OLDER_OPSET or not gains or not all(_is_the_same(node, opset) for node in nodes):
            return ir.passes.PassResult(model, False)
        for graph in (model.graph, *model.functions.values()):
            if "" in graph.opset_imports:
                graph.opset_imports[""] = OLDER_OPSET
        return ir.passes.PassResult(model, True)


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    for graph in (model.graph, *model.functions.values()):
        yield from ir.traversal.RecursiveGraphIterator(graph)


def _is_the_same(node: ir.Node, opset: int) -> bool:
    """Return True if a node's operator has at the older opset what the node uses of it.

    From one of these opsets to the other no operator with the same inputs and attributes changed what it computes; the
    newer ones take more types.
    """
    newer = defs.get_schema(node.op_type, opset)
    try:
        older = defs.get_schema(node.op_type, OLDER_OPSET)
    except defs.SchemaError:
        return False
    if older.since_version == newer.since_version:
        return True
    same_form = len(older.inputs) == len(newer.inputs) and len(older.outputs) == len(newer.outputs)
    return same_form and older.attributes.keys() >= node.attributes.keys() and _has_types(node, opset)


def _has_types(node: ir.Node, opset: int) -> bool:
    """Return True if all types of a node are known, and allowed at the older opset."""
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    return all(value.dtype is not None for value in values) and is_legal(node, OLDER_OPSET, binding_of(node, opset))
