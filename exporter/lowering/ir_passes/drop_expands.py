"""Removal of an Expand that only meets a larger operand: the operator expands it by itself."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from fxport.exporter.lowering.ir_passes.patterns import nodes_of, sizes_of
from fxport.fx_passes.sizes import Size

BROADCASTING = frozenset(
    {
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Max",
        "Min",
        "And",
        "Or",
        "Xor",
        "Equal",
        "Less",
        "LessOrEqual",
        "Greater",
        "GreaterOrEqual",
    }
)
"""Operators of two operands or more, each of which may lack axes of the others or have size 1 there."""


class DropExpands(ir.passes.InPlacePass):
    """Leaves out an Expand whose results have their sizes from another operand wherever they are read.

    Given:   %e = Expand(%x, [3, batch, 4]); %y = MatMul(%e, %weight)  # of the sizes [3, 4, 2]
    Result:  %y = MatMul(%x, %weight)
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        dropped = [_drop(node) for node in nodes_of(model) if node.op_type == "Expand" and not node.domain]
        return ir.passes.PassResult(model, any(dropped))


def _drop(node: ir.Node) -> bool:
    source, result = node.inputs[0], node.outputs[0]
    before, after = sizes_of(source), sizes_of(result)
    if source is None or before is None or after is None or len(before) > len(after) or result.is_graph_output():
        return False
    before = (*[1] * (len(after) - len(before)), *before)
    rank = len(sizes_of(source) or ())
    grown = {axis - len(after) for axis, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}
    uses = result.uses()
    if not uses or not all(_given_by_others(use.node, use.idx, after, rank, grown) for use in uses):
        return False
    if any(use.node.op_type == "MatMul" for use in uses) and rank < 2:
        return False
    result.replace_all_uses_with(source)
    assert node.graph is not None
    node.graph.remove(node, safe=True)
    return True


def _given_by_others(user: ir.Node, position: int, sizes: Sequence[Size], rank: int, grown: set[int]) -> bool:
    """Return True if another operand has these sizes at the axes, counted from behind, that were expanded, and all
    axes in front that the source of `rank` axes lacks."""
    if user.domain or user.op_type not in BROADCASTING | {"MatMul"}:
        return False
    if user.op_type == "MatMul" and max(grown, default=-3) > -3:
        return False
    expanded = user.inputs[position]  # which may be two operands at once, and neither has its sizes from the other
    others = [sizes_of(value) for value in user.inputs if value is not expanded]
    return any(
        other is not None
        and max(rank, len(other)) == len(sizes)
        and all(-axis <= len(other) and other[axis] == sizes[axis] for axis in grown)
        for other in others
    )
