"""Identity nodes that nothing needs."""

from __future__ import annotations

import onnx_ir as ir


class DropIdentities(ir.passes.InPlacePass):
    """Removes what only passes a value on, in the graph and in the bodies of control flow.

    Kept are those that ONNX needs: a graph's output must be made by a node of that graph, and no two of its outputs may
    be one value.

    Given:   %y = Identity(%x); %z = Relu(%y)
    Result:  %z = Relu(%x)
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        graphs = (model.graph, *model.functions.values())
        nodes = [node for graph in graphs for node in ir.traversal.RecursiveGraphIterator(graph)]
        identities = [node for node in nodes if node.op_type == "Identity" and not node.domain]
        dropped = [_drop(node) for node in identities]
        return ir.passes.PassResult(model, any(dropped))


def _drop(node: ir.Node) -> bool:
    source, result = node.inputs[0], node.outputs[0]
    if source is None:
        return False
    if not result.is_graph_output():
        _take_type(source, result)
        result.replace_all_uses_with(source)
    elif _can_be_output(source, node):
        _take_type(source, result)
        name = result.name
        result.replace_all_uses_with(source, replace_graph_outputs=True)
        result.name, source.name = None, name
    else:
        return False
    assert node.graph is not None
    node.graph.remove(node, safe=True)
    return True


def _can_be_output(source: ir.Value, node: ir.Node) -> bool:
    """Return True if a value can replace its Identity among the outputs of the graph that holds the Identity."""
    producer = source.producer()
    return producer is not None and producer.graph is node.graph and not source.is_graph_output()


def _take_type(source: ir.Value, result: ir.Value) -> None:
    """Keeps what was known of the result alone."""
    if source.shape is None:
        source.shape = result.shape
    if source.type is None:
        source.type = result.type
