"""Known faults of ONNX Runtime's graph optimizations, and the graphs that do not meet them.

A row that the newest supported runtime does not show any more is deleted: a test holds each against the installed one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from fxport.exporter.lowering.ir_passes.casts_first import casts_before_transposes
from fxport.exporter.lowering.ir_passes.join_outputs import join_outputs
from fxport.exporter.lowering.ir_passes.keep_apart import (
    casts_stay_in_turn,
    factors_stay_doubles,
    integers_become_halves,
    powers_are_no_squares,
    ranges_are_no_slices,
)
from fxport.exporter.lowering.ir_passes.patterns import before, constant_before, constant_of
from fxport.exporter.lowering.lower.producers import made_by


@dataclass(frozen=True, slots=True)
class RuntimeFault:
    """A fault: the optimizer that has it, the versions that it was seen in, the nodes that it breaks, and how a graph
    is written without them. `rewrite` returns True if it changed the graph."""

    optimizer: str
    versions: str
    pattern: str
    rewrite: Callable[[ir.Graph], bool]


class AvoidFaults(ir.passes.InPlacePass):
    """Writes what the rows of `FAULTS` name in another way, with the same results.

    Given:   %p = Pad(%x, %amounts); %y = MaxPool(%p)
    Result:  %p = Pad(%x, %amounts, , %axes); %y = MaxPool(%p)
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        changed = [fault.rewrite(graph) for graph in list(_graphs(model)) for fault in FAULTS]
        return ir.passes.PassResult(model, any(changed))


def _graphs(model: ir.Model) -> Iterator[ir.Graph]:
    """The graph and the bodies of its control flow."""
    yield model.graph
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield attribute.as_graph()
            elif attribute.type == ir.AttributeType.GRAPHS:
                yield from attribute.as_graphs()


def pads_name_their_axes(graph: ir.Graph) -> bool:
    """A Pad in front of a pooling has `axes`, all of them: those are left alone.

    Others become a part of the pooling, which pads with what does not count: a maximum of padding and negative numbers
    is then the largest of the negative numbers, and one that is rounded up has fewer windows.
    """
    changed = [_name_axes(node) for node in list(graph) if node.op_type == "Pad" and not node.domain]
    return any(changed)


def _name_axes(pad: ir.Node) -> bool:
    users = [node for node, _ in pad.outputs[0].uses()]
    mode = pad.attributes["mode"].as_string() if "mode" in pad.attributes else "constant"
    shape = pad.outputs[0].shape or (pad.inputs[0].shape if pad.inputs[0] is not None else None)
    named = len(pad.inputs) > AXES and pad.inputs[AXES] is not None
    if mode != "constant" or named or shape is None or not any(_is_broken_pooling(user) for user in users):
        return False
    axes = constant_before(pad, np.arange(len(shape), dtype=np.int64))
    pad.resize_inputs(AXES + 1)
    pad.replace_input_with(AXES, axes)
    return True


AXES = 3
"""The place of `axes` among the operands of Pad."""


def _is_broken_pooling(node: ir.Node) -> bool:
    """Return True for a pooling of which a Pad must not become a part."""
    rounds_up = "ceil_mode" in node.attributes and node.attributes["ceil_mode"].as_int() == 1
    return not node.domain and (node.op_type == "MaxPool" or (node.op_type == "AveragePool" and rounds_up))


def whole_quotients_are_negated(graph: ir.Graph) -> bool:
    """A whole number times a whole part of 1 is written with -1: `(1 // x) y` would become `y // x`.

    Given:   %q = Div(1, %x); %r = Mul(%q, %y)
    Result:  %q = Div(-1, %x); %r = Mul(%q, Neg(%y))
    """
    changed = [_negate(node) for node in list(graph) if node.op_type == "Mul" and not node.domain]
    return any(changed)


WHOLE = frozenset({ir.DataType.INT32, ir.DataType.INT64})
"""The types of whole numbers that ONNX Runtime divides."""


def _negate(product: ir.Node) -> bool:
    if product.outputs[0].dtype not in WHOLE:
        return False
    for index, operand in enumerate(product.inputs):
        quotient = made_by(operand, "Div")
        factor = product.inputs[1 - index]
        if quotient is None or factor is None or quotient.graph is not product.graph or not _is_one(quotient.inputs[0]):
            continue
        one, divisor = quotient.inputs
        assert one is not None
        minus = constant_before(quotient, -np.ones(one.shape.numpy() if one.shape else (), one.dtype.numpy()))  # type: ignore[union-attr]  # a constant has a type
        negated = before(product, "Div", [minus, divisor], like=quotient.outputs[0])
        opposite = before(product, "Neg", [factor], like=factor)
        product.replace_input_with(index, negated)
        product.replace_input_with(1 - index, opposite)
        return True
    return False


def _is_one(value: ir.Value | None) -> bool:
    array = constant_of(value)
    return array is not None and array.size > 0 and bool((array == 1).all())


FAULTS = (
    RuntimeFault(
        "MatmulTransposeFusion",
        "1.31.1",
        "a MatMul reads a Cast of a Transpose of other axes than the last two: the process ends (SIGSEGV)",
        casts_before_transposes,
    ),
    RuntimeFault(
        "CommonSubexpressionElimination",
        "1.31.1",
        "equal nodes of which each leaves out another output: the session is refused",
        join_outputs,
    ),
    RuntimeFault(
        "Pad_Fusion",
        "1.31.1",
        "a Pad in front of a MaxPool, or of an AveragePool with ceil_mode: other values and sizes, or refused",
        pads_name_their_axes,
    ),
    RuntimeFault("DivMulFusion", "1.31.1", "Mul(Div(1, x), y) of whole numbers: y / x", whole_quotients_are_negated),
    RuntimeFault(
        "LayerNormFusionL1",
        "1.31.1",
        "a layer norm with another power than the square: that of the square",
        powers_are_no_squares,
    ),
    RuntimeFault(
        "GatherToSliceFusion",
        "1.31.1",
        "a Gather at a Range that goes down to 0, or begins below 0: nothing, or other elements",
        ranges_are_no_slices,
    ),
    RuntimeFault(
        "RemoveDuplicateCastTransformer",
        "1.31.1",
        "two casts to whole numbers in turn, of which the first is left out: other numbers beyond their limits",
        casts_stay_in_turn,
    ),
    RuntimeFault(
        "InsertCastTransformer",
        "1.31.1",
        "whole numbers as halves in front of a kernel that has none: neither rounded nor infinite",
        integers_become_halves,
    ),
    RuntimeFault(
        "MatMulScaleFusion",
        "1.31.1",
        "a MatMul of doubles whose operand or result is scaled by a constant: the constant is rounded to 32 bits",
        factors_stay_doubles,
    ),
)
