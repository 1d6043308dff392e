"""Two transpositions, one after the other, are one."""

from __future__ import annotations

import onnx_ir as ir

from fxport.exporter.lowering.ir_passes.patterns import nodes_of, put_in_place


class ComposeTransposes(ir.passes.InPlacePass):
    """Reads what a Transpose reads whose result nothing else uses; a pair that turns back is left out.

    Given:   %t = Transpose(%x, perm=[0, 2, 1, 3]); %y = Transpose(%t, perm=[0, 1, 3, 2])
    Result:  %y = Transpose(%x, perm=[0, 2, 3, 1])
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        composed = [_compose(node) for node in nodes_of(model)]
        return ir.passes.PassResult(model, any(composed))


def _compose(outer: ir.Node) -> bool:
    order, between = _order(outer), outer.inputs[0] if outer.inputs else None
    inner = between.producer() if between is not None else None
    first = _order(inner) if inner is not None else None
    if inner is None or between is None or order is None or first is None or inner.graph is not outer.graph:
        return False
    source = inner.inputs[0]
    if source is None or len(between.uses()) != 1 or between.is_graph_output():
        return False
    graph, both = outer.graph, [first[axis] for axis in order]
    assert graph is not None
    if both != sorted(both):
        outer.replace_input_with(0, source)
        outer.attributes["perm"] = ir.AttrInt64s("perm", both)
    elif outer.outputs[0].is_graph_output():  # a value may be no other output, nor an input
        return False
    else:
        put_in_place(outer.outputs[0], source)
        graph.remove(outer, safe=True)
    graph.remove(inner, safe=True)
    return True


def _order(node: ir.Node) -> list[int] | None:
    """The order of axes of a Transpose; None for other nodes, and for one that has the default."""
    if node.op_type != "Transpose" or node.domain or "perm" not in node.attributes:
        return None
    return [*node.attributes["perm"].as_ints()]
