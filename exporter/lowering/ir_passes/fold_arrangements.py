"""Weights that are only ever used in another arrangement are stored in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from fxport.exporter.lowering.ir_passes.patterns import fixed, nodes_of
from fxport.exporter.lowering.lower.builder import SIZES
from fxport.exporter.lowering.lower.weights import LazyWeight

Arrangement = Callable[[ir.Node, Sequence[np.ndarray], tuple[int, ...]], np.ndarray]
"""(node, its operands, the sizes of its result) → its result."""


def _concat(node: ir.Node, operands: Sequence[np.ndarray], sizes: tuple[int, ...]) -> np.ndarray:
    return np.concatenate(operands, node.attributes["axis"].as_int())


def _gather(node: ir.Node, operands: Sequence[np.ndarray], sizes: tuple[int, ...]) -> np.ndarray:
    return np.take(operands[0], operands[1], node.attributes.get_int("axis", 0))


def _reshape(node: ir.Node, operands: Sequence[np.ndarray], sizes: tuple[int, ...]) -> np.ndarray:
    return operands[0].reshape(sizes)


ARRANGEMENTS: Mapping[str, Arrangement] = {
    "Concat": _concat,
    "Gather": _gather,
    "Reshape": _reshape,
    "Squeeze": _reshape,
    "Unsqueeze": _reshape,
}
"""Operators that only move numbers to other places."""

SUFFIX = ".arranged"


class FoldArrangements(ir.passes.InPlacePass):
    """Computes the new arrangement when the model is saved; no weight is read before.

    Only where each weight serves nothing else, so that the file does not grow: the gates of a recurrent layer, which
    PyTorch and ONNX order differently, and the weights of its two directions, which ONNX has as one.

    Given:   %g = Gather(%weight, [0, 1, 6, 7, …]); %w = Reshape(%g, [1, 8, 4]); %y = LSTM(%x, %w, …)
    Result:  %y = LSTM(%x, %weight.arranged, …)
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        folded = [_fold(model.graph, node) for node in nodes_of(model)]
        return ir.passes.PassResult(model, any(folded))


def _fold(graph: ir.Graph, node: ir.Node) -> bool:
    arrangement = ARRANGEMENTS.get(node.op_type) if not node.domain else None
    tensors = [fixed(value) for value in node.inputs]
    sizes = node.outputs[0].meta.get(SIZES)
    if arrangement is None or sizes is None or any(tensor is None for tensor in tensors):
        return False
    weights = [value for value in node.inputs if value is not None and isinstance(value.const_value, ir.LazyTensor)]
    if not weights or any(len(weight.uses()) != 1 or weight.is_graph_output() for weight in weights):
        return False
    if node.outputs[0].is_graph_output():
        return False
    _store(graph, node, weights, arrangement, [tensor for tensor in tensors if tensor is not None], sizes)
    return True


def _store(
    graph: ir.Graph,
    node: ir.Node,
    weights: Sequence[ir.Value],
    arrangement: Arrangement,
    tensors: Sequence[ir.TensorProtocol],
    sizes: tuple[int, ...],
) -> None:
    name = str(weights[0].name).removesuffix(SUFFIX) + SUFFIX
    dtype = weights[0].dtype
    assert dtype is not None

    def read() -> ir.TensorProtocol:
        array = arrangement(node, [tensor.numpy() for tensor in tensors], sizes)
        return ir.Tensor(np.ascontiguousarray(array), dtype=dtype, name=name)

    old = node.outputs[0]
    lazy = LazyWeight(read, dtype=dtype, shape=ir.Shape(sizes), name=name)
    fresh = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(sizes), const_value=lazy)
    fresh.meta[SIZES] = sizes
    old.replace_all_uses_with(fresh)
    assert node.graph is not None
    node.graph.remove(node, safe=True)
    for weight in weights:
        graph.initializers.pop(str(weight.name))
    graph.initializers.add(fresh)
