"""Weights that are only ever used transposed are stored so."""

from __future__ import annotations

import onnx_ir as ir

from fxport.exporter.lowering.ir_passes.patterns import fixed, transposed
from fxport.exporter.lowering.lower.builder import SIZES
from fxport.exporter.lowering.lower.weights import LazyWeight


class FoldTransposes(ir.passes.InPlacePass):
    """Stores a weight transposed where every use of it is the same Transpose; nothing is read before saving.

    A weight that is used in another way too, such as an embedding tied to the last layer, keeps its Transpose: ONNX
    Runtime folds it while loading, and the file holds the weight once.

    Given:   %t = Transpose(%weight, perm=[1, 0]); %y = MatMul(%x, %t)
    Result:  %y = MatMul(%x, %weight), with %weight stored transposed
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified = False
        for value in list(model.graph.initializers.values()):
            uses = [use.node for use in value.uses()]
            if (
                not uses
                or fixed(value) is None
                or value.is_graph_output()
                or not all(_is_inner_transpose(use) for use in uses)
            ):
                continue
            orders = {tuple(use.attributes["perm"].as_ints()) for use in uses if "perm" in use.attributes}
            if len(orders) != 1 or any("perm" not in use.attributes for use in uses):
                continue
            (order,) = orders
            _store_transposed(value, order)
            for use in uses:
                use.outputs[0].replace_all_uses_with(value, replace_graph_outputs=False)
                assert use.graph is not None
                use.graph.remove(use, safe=True)
            modified = True
        return ir.passes.PassResult(model, modified)


def _is_inner_transpose(node: ir.Node) -> bool:
    """An initializer cannot stand for an output of the model, so a Transpose that gives one stays."""
    return node.op_type == "Transpose" and not node.domain and not node.outputs[0].is_graph_output()


def _store_transposed(value: ir.Value, order: tuple[int, ...]) -> None:
    tensor = value.const_value
    assert tensor is not None
    sizes = [int(tensor.shape[axis]) for axis in order]  # type: ignore[arg-type]  # a weight's sizes are numbers
    value.const_value = LazyWeight(
        lambda: ir.Tensor(transposed(tensor.numpy(), order), dtype=tensor.dtype, name=tensor.name),
        dtype=tensor.dtype,
        shape=ir.Shape(sizes),
        name=tensor.name,
    )
    value.shape = ir.Shape(sizes)
    value.meta[SIZES] = tuple(sizes)
