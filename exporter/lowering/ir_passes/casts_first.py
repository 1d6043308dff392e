"""A cast between a transpose and a product stands before the transpose: ONNX Runtime dies of the other order."""

from __future__ import annotations

import onnx_ir as ir

from fxport.exporter.lowering.lower.places import remark


def casts_before_transposes(graph: ir.Graph) -> bool:
    """Casts first and transposes then, where a product reads the result.

    ONNX Runtime folds a Transpose into the MatMul that reads it, also through a Cast, by changing the places of these
    two. With a permutation of other axes than the last two its process ends in that rewrite (1.31.1: SIGSEGV while the
    session is made, for every dtype). In this order it has nothing to change.

    Given:   %t = Transpose(%x); %c = Cast(%t); %y = MatMul(%c, %w)
    Result:  %t = Cast(%x); %c = Transpose(%t); %y = MatMul(%c, %w)
    """
    changed = [_swap(node) for node in list(graph) if node.op_type == "Cast" and not node.domain]
    return any(changed)


def _swap(cast: ir.Node) -> bool:
    """Move a cast before the transpose of its input, which keeps its other users; return True if it was moved."""
    source, result = cast.inputs[0], cast.outputs[0]
    transpose = source.producer() if source is not None else None
    if source is None or transpose is None or transpose.op_type != "Transpose" or transpose.domain:
        return False
    if transpose.graph is not cast.graph or not any(user.op_type == "MatMul" for user, _ in result.uses()):
        return False
    inner = transpose.inputs[0]
    assert inner is not None
    assert cast.graph is not None
    early = ir.node(
        "Cast",
        [inner],
        attributes=cast.attributes,
        name=f"{cast.name}.early",  # the transpose may stay for others, so its name and that of the cast are taken
        metadata_props=cast.metadata_props,
    )
    early.outputs[0].name = f"{result.name}.cast"
    early.outputs[0].shape, early.outputs[0].type = inner.shape, result.type
    late = ir.Node(
        "",
        "Transpose",
        [early.outputs[0]],
        transpose.attributes.values(),
        outputs=None,
        num_outputs=1,
        name=cast.name,
        metadata_props=transpose.metadata_props,
    )
    late.outputs[0].name = result.name
    late.outputs[0].shape, late.outputs[0].type = result.shape, result.type
    cast.graph.insert_before(cast, [early, late])
    result.replace_all_uses_with(late.outputs[0], replace_graph_outputs=True)
    remark(late.outputs[0], result)
    result.name = None
    cast.graph.remove(cast, safe=True)
    if not source.uses() and not source.is_graph_output():
        assert transpose.graph is not None
        transpose.graph.remove(transpose, safe=True)
    return True
