"""Products on rows that were flattened for them, and unflattened after them."""

from __future__ import annotations

import onnx_ir as ir

from fxport.exporter.lowering.ir_passes.patterns import describe, nodes_of, put_in_place, sizes_of
from fxport.exporter.lowering.lower.builder import SIZES
from fxport.exporter.lowering.lower.producers import made_by


class UnflattenProducts(ir.passes.InPlacePass):
    """MatMul takes any number of leading axes; the two Reshapes, and the shape that one of them computes, can go.

    Given:   %r = Reshape(%x, [-1, 768]); %g = Gemm(%r, %w, %b); %y = Reshape(%g, [batch, length, 3072])
    Result:  %m = MatMul(%x, %w); %y = Add(%m, %b)
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        nodes = [node for node in nodes_of(model) if node.op_type == "Gemm" and not node.domain]
        changed = [_unflatten(node) for node in nodes]
        return ir.passes.PassResult(model, any(changed))


def _unflatten(gemm: ir.Node) -> bool:
    flatten, result = made_by(gemm.inputs[0], "Reshape"), gemm.outputs[0]
    if flatten is None or gemm.attributes or result.is_graph_output():
        return False
    x, consumers = flatten.inputs[0], result.consumers()
    source, columns = sizes_of(x), sizes_of(gemm.inputs[1])
    if source is None or columns is None or any(node.op_type != "Reshape" for node in consumers):
        return False
    if sizes_of(flatten.outputs[0]) is None or sizes_of(flatten.outputs[0])[1:] != source[-1:]:  # type: ignore[index]
        return False
    bias = gemm.inputs[2] if len(gemm.inputs) > 2 else None
    if bias is not None and sizes_of(bias) != columns[1:]:
        return False
    targets = [node.outputs[0] for node in consumers]
    if not targets or any(sizes_of(each) != (*source[:-1], columns[1]) for each in targets):
        return False
    if sum(target.is_graph_output() for target in targets) > 1:  # one value cannot be two outputs
        return False
    assert x is not None
    product = _node(gemm, "MatMul", [x, gemm.inputs[1]], targets[0])
    fresh = product if bias is None else _node(gemm, "Add", [product, bias], targets[0])
    for target in targets:
        put_in_place(target, fresh)
    return True


def _node(gemm: ir.Node, op_type: str, inputs: list[ir.Value | None], like: ir.Value) -> ir.Value:
    name = f"{gemm.name}/{op_type}"
    node = ir.Node("", op_type, inputs, outputs=[ir.Value(name=name)], name=name)
    node.metadata_props.update(gemm.metadata_props)
    describe(node.outputs[0], like)
    node.outputs[0].meta[SIZES] = like.meta[SIZES]
    assert gemm.graph is not None
    gemm.graph.insert_before(gemm, node)
    return node.outputs[0]
