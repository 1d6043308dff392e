"""A scalar that divides every element of a divisor multiplies a scalar instead."""

from __future__ import annotations

import onnx_ir as ir

from fxport.exporter.lowering.ir_passes.patterns import describe, nodes_of, sizes_of
from fxport.exporter.lowering.lower.producers import made_by


class MoveScalars(ir.passes.InPlacePass):
    """The update of Adam in one pass less over the parameters: m t / (s / b + e) is m (t b) / (s + e b).

    Given:   %d = Add(Div(%s, %b), %e); %u = Div(Mul(%m, %t), %d), where b, e and t are scalars
    Result:  %d = Add(%s, Mul(%e, %b)); %u = Div(Mul(%m, Mul(%t, %b)), %d)
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        quotients = [node for node in nodes_of(model) if node.op_type == "Div" and not node.domain]
        moved = [_move(node) for node in quotients]
        return ir.passes.PassResult(model, any(moved))


def _move(quotient: ir.Node) -> bool:
    scaled, shifted = _only_made_by(quotient.inputs[0], "Mul"), _only_made_by(quotient.inputs[1], "Add")
    divided = _only_made_by(shifted.inputs[0], "Div") if shifted is not None else None
    if scaled is None or shifted is None or divided is None:
        return False
    factor, divisor, offset = scaled.inputs[1], divided.inputs[1], shifted.inputs[1]
    if not all(_is_scalar(each) for each in (factor, divisor, offset)) or _is_scalar(divided.inputs[0]):
        return False
    if scaled.graph is not quotient.graph or shifted.graph is not quotient.graph:
        return False
    assert divisor is not None
    assert quotient.graph is not None
    for node in (scaled, shifted):  # which nothing else reads, to where the divisor is known
        quotient.graph.remove(node)
        quotient.graph.insert_before(quotient, node)
    scaled.replace_input_with(1, _product(factor, divisor, scaled))
    shifted.replace_input_with(0, divided.inputs[0])
    shifted.replace_input_with(1, _product(offset, divisor, shifted))
    return True


def _only_made_by(value: ir.Value | None, op_type: str) -> ir.Node | None:
    """The node of that operator that makes a value, if only one reads it."""
    node = made_by(value, op_type)
    alone = node is not None and len(node.outputs[0].uses()) == 1 and not node.outputs[0].is_graph_output()
    return node if alone else None


def _is_scalar(value: ir.Value | None) -> bool:
    return sizes_of(value) == () or (value is not None and value.shape is not None and value.shape.rank() == 0)


def _product(scalar: ir.Value | None, divisor: ir.Value, reader: ir.Node) -> ir.Value:
    """The product of two scalars, for a node that reads it as its second operand."""
    assert reader.graph is not None
    node = ir.Node("", "Mul", [scalar, divisor], name=f"{reader.name}/scalar")
    node.metadata_props.update(reader.metadata_props)
    node.outputs[0].name = node.name
    describe(node.outputs[0], divisor)
    reader.graph.insert_before(reader, node)
    return node.outputs[0]
