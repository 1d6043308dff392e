"""Places in sorted sequences."""

from __future__ import annotations

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.symbols import is_symbolic

aten = torch.ops.aten

FEW = 256
"""Sequences up to this length are compared element by element, which is faster than a search and takes fewer nodes."""

TURNS = 31
"""Of a search whose sequence has a length that is not known: enough for any tensor of two thousand million elements.
One more, and ONNX Runtime's Min of INT64 would be wrong; see `maximum`."""


@lowering(aten.searchsorted.Tensor, aten.searchsorted.Scalar)
def searchsorted(
    op: Op,
    sequence: Value,
    x: Value | Scalar,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    """searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, \
str? side=None, Tensor? sorter=None) -> Tensor"""
    if sorter is not None:
        sequence = op.typed(
            op.GatherElements(sequence, op.cast(sorter, ir.DataType.INT64), axis=-1), op.sizes(sequence)
        )
    return op.cast(places(op, sequence, x, right=right or side == "right"), op.out.dtype)


@lowering(aten.bucketize.Tensor, aten.bucketize.Scalar)
def bucketize(op: Op, x: Value | Scalar, boundaries: Value, *, out_int32: bool = False, right: bool = False) -> Value:
    """bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"""
    return op.cast(places(op, boundaries, x, right=right), op.out.dtype)


def places(op: Op, sequence: Value, x: Value | Scalar, *, right: bool) -> Value:
    """Count the elements of the sequence that come before each value; `right` counts those equal to it, too.

    The sequence is a vector, or has one row for each row of `x`. A value that is NaN comes after everything.
    """
    x = x if isinstance(x, ir.Value) else op.const(x, like=None if isinstance(x, float) else sequence)
    if x.dtype != sequence.dtype:
        x, sequence = (op.cast(each, ir.DataType.DOUBLE) for each in (x, sequence))
    length = op.sizes(sequence)[-1]
    if is_symbolic(length):
        return _searched_in_a_loop(op, sequence, x, right)
    if length > FEW:
        return _searched(op, sequence, x, right, int(length))
    return _counted(op, sequence, x, right)


def _before(op: Op, element: Value, x: Value, right: bool) -> Value:
    """Compute as BOOL where an element comes before a value, in a form that is true for a value that is NaN."""
    return op.Not(op.Greater(element, x) if right else op.GreaterOrEqual(element, x))


def _counted(op: Op, sequence: Value, x: Value, right: bool) -> Value:
    """Axes counted from the front: from the back ONNX Runtime takes no notice of them where there are no elements."""
    rows = op.Unsqueeze(sequence, [-2]) if op.rank(sequence) > 1 else sequence
    before = _before(op, rows, op.Unsqueeze(x, [-1]), right)
    return op.ReduceSum(op.Cast(before, to=ir.DataType.INT64), [op.rank(x)], keepdims=0)


def _searched(op: Op, sequence: Value, x: Value, right: bool, length: int) -> Value:
    place = op.Expand(0, op.shape(op.sizes(x)))
    for bit in reversed(range(length.bit_length())):
        place = _moved(op, sequence, x, right, place, op.const(1 << bit))
    return place


def _searched_in_a_loop(op: Op, sequence: Value, x: Value, right: bool) -> Value:
    """No turn is made in an empty sequence, which has no element to look at."""
    sizes, dtype = op.sizes(x), ir.DataType.INT64
    turn, going = op.formal(dtype, []), op.formal(ir.DataType.BOOL, [])
    stride, place = op.formal(dtype, []), op.formal(dtype, sizes)
    graph = op.graph(
        [turn, going, stride, place],
        lambda: [going, op.Div(stride, 2), _moved(op, sequence, x, right, place, stride)],
    )
    filled = op.Greater(op.const(op.sizes(sequence)[-1]), 0)
    _, found = op.Loop(TURNS, filled, 1 << (TURNS - 1), op.Expand(0, op.shape(sizes)), body=graph, outputs=2)
    found.dtype = dtype
    return found


def _moved(op: Op, sequence: Value, x: Value, right: bool, place: Value, stride: Value) -> Value:
    """One turn of a binary search: a place goes on by the stride, if what it then has passed is before the value."""
    length = op.const(op.sizes(sequence)[-1])
    further = op.Add(place, stride)
    last = op.Sub(op.Min(further, length), 1)
    passed = op.GatherElements(sequence, last, axis=-1) if op.rank(sequence) > 1 else op.Gather(sequence, last)
    passes = op.And(op.LessOrEqual(further, length), _before(op, passed, x, right))
    return op.Where(passes, further, place)
