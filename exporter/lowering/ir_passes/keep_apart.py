"""Nodes of which ONNX Runtime would make one, wrongly: a Max of one operand keeps them apart, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx_ir as ir

from fxport.exporter.lowering.ir_passes.patterns import before, constant_of, describe
from fxport.exporter.lowering.lower.producers import made_by

SQUARE = 2


def powers_are_no_squares(graph: ir.Graph) -> bool:
    """The mean of another power than the square is not that of a layer norm.

    Given:   %d = Sub(%x, %m); %p = Pow(%d, 4); %v = ReduceMean(%p)
    Result:  %d = Sub(%x, %m); %e = Max(%d); %p = Pow(%e, 4); %v = ReduceMean(%p)
    """
    return _keep_apart(graph, "Pow", 0, _is_taken_for_a_square)


def _is_taken_for_a_square(power: ir.Node) -> bool:
    exponent, source = constant_of(power.inputs[1]), made_by(power.inputs[0], "Sub")
    means = [user for user, _ in power.outputs[0].uses() if user.op_type == "ReduceMean" and not user.domain]
    return source is not None and bool(means) and (exponent is None or not bool((exponent == SQUARE).all()))


def ranges_are_no_slices(graph: ir.Graph) -> bool:
    """Elements at a range that goes down, or begins below 0, are no slice, for which -1 is the last place.

    Given:   %r = Range(%last, -1, -1); %y = Gather(%x, %r)
    Result:  %r = Range(%last, -1, -1); %i = Max(%r); %y = Gather(%x, %i)
    """
    return _keep_apart(graph, "Gather", 1, _reads_no_slice)


def _reads_no_slice(gather: ir.Node) -> bool:
    places = made_by(gather.inputs[1], "Range")
    if places is None:
        return False
    start, _, step = map(constant_of, places.inputs)
    return start is None or step is None or start.item() < 0 or step.item() <= 0


def casts_stay_in_turn(graph: ir.Graph) -> bool:
    """Whole numbers cut off in two steps, or after a rounding, are not those of one cast: 3e9 as int64 as int32.

    Given:   %l = Cast<INT64>(%x); %y = Cast<INT32>(%l)
    Result:  %l = Cast<INT64>(%x); %k = Max(%l); %y = Cast<INT32>(%k)
    """
    return _keep_apart(graph, "Cast", 0, _is_cut_off_in_turn)


COMPARED = frozenset(
    {ir.DataType.INT64, ir.DataType.UINT64, ir.DataType.UINT32, ir.DataType.DOUBLE, ir.DataType.FLOAT}
    | {ir.DataType.FLOAT16, ir.DataType.INT32}
)
"""The types that ONNX Runtime's Max takes on the CPU."""


def _is_cut_off_in_turn(cast: ir.Node) -> bool:
    first = made_by(cast.inputs[0], "Cast")
    if first is None or first.inputs[0] is None:
        return False
    source, between, result = first.inputs[0].dtype, first.outputs[0].dtype, cast.outputs[0].dtype
    if source is None or between is None or result is None:
        return False
    if ir.DataType.BOOL in (source, result) or between not in COMPARED:
        return False
    return result.is_integer() and not (source.is_integer() and between.is_integer()) and source != result


WIDE = frozenset(
    {ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64}
    | {ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64}
)
"""Types of whole numbers that halves do not hold."""


def integers_become_halves(graph: ir.Graph) -> bool:
    """Whole numbers as halves are rounded or infinite, also for kernels that take halves as FLOAT: 2049 is 2048.

    Given:   %h = Cast<FLOAT16>(%i); %y = Softmax(%h)
    Result:  %h = Cast<FLOAT16>(%i); %k = Max(%h); %y = Softmax(%k)
    """
    broken = [cast for cast in list(graph) if cast.op_type == "Cast" and not cast.domain and _makes_halves(cast)]
    for cast in broken:
        half = cast.outputs[0]
        node = ir.node("Max", [half], name=f"{cast.name}/Max", metadata_props=dict(cast.metadata_props))
        node.outputs[0].name = f"{half.name}/Max"
        describe(node.outputs[0], half)
        for user, index in _computing(half):
            user.replace_input_with(index, node.outputs[0])
        graph.insert_after(cast, node)
    return bool(broken)


def _makes_halves(cast: ir.Node) -> bool:
    source, half = cast.inputs[0], cast.outputs[0]
    return source is not None and source.dtype in WIDE and half.dtype == ir.DataType.FLOAT16 and bool(_computing(half))


def _computing(half: ir.Value) -> list[tuple[ir.Node, int]]:
    """Uses of a value by others than casts, which keep what they are given, and a Max."""
    return [(user, index) for user, index in half.uses() if user.op_type not in ("Cast", "Max")]


def factors_stay_doubles(graph: ir.Graph) -> bool:
    """The factor of a product in double is not that of one node, whose attribute has 32 bits.

    Given:   %s = Mul(%q, 0.378); %y = MatMul(%s, %k)
    Result:  %s = Mul(%q, 0.378); %m = Max(%s); %y = MatMul(%m, %k)
    """
    changed = [_keep_apart(graph, "MatMul", index, partial(_reads_scaled, index=index)) for index in (0, 1)]
    for op_type in SCALING:
        changed += [_keep_apart(graph, op_type, index, partial(_scales_product, index=index)) for index in (0, 1)]
    return any(changed)


SCALING = ("Mul", "Div")


def _reads_scaled(product: ir.Node, index: int) -> bool:
    operand = product.inputs[index]
    moved = made_by(operand, "Transpose")
    operand = operand if moved is None else moved.inputs[0]
    return any((scale := made_by(operand, op_type)) is not None and _is_rounded(scale) for op_type in SCALING)


def _scales_product(scale: ir.Node, index: int) -> bool:
    return made_by(scale.inputs[index], "MatMul") is not None and _is_rounded(scale)


def _is_rounded(scale: ir.Node) -> bool:
    """Return True if a factor or divisor of doubles, or what it is divided by, is no number of 32 bits."""
    factors = [factor for factor in map(constant_of, scale.inputs) if factor is not None and factor.size == 1]
    if scale.outputs[0].dtype != ir.DataType.DOUBLE or not factors:
        return False
    with np.errstate(all="ignore"):  # what is too large for 32 bits is infinite there, and no such number
        factor = factors[0] if scale.op_type == "Mul" else np.divide(1, factors[0])
        return bool(factor.astype(np.float32) != factor)


def _keep_apart(graph: ir.Graph, op_type: str, index: int, is_broken: Callable[[ir.Node], bool]) -> bool:
    """Put a Max of one operand in front of the operand `index` of nodes; return True if there are such nodes."""
    broken = [each for each in list(graph) if each.op_type == op_type and not each.domain and is_broken(each)]
    for node in broken:
        operand = node.inputs[index]
        assert operand is not None
        node.replace_input_with(index, before(node, "Max", [operand], like=operand))
    return bool(broken)
