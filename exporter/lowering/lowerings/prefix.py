"""Running values of any associative operation, in as many steps as the length has bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.symbols import is_symbolic
from fxport.exporter.lowering.lowerings.axes import LAST

Combine = Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]
"""(values of what comes before, values of what comes after) → values of both together."""


def prefixes(op: Op, values: Sequence[Value], axis: int, combine: Combine) -> list[Value]:
    """For each place along `axis` the elements up to it combined. `values` have the same sizes and belong together.

    By doubling (Hillis and Steele, 1986): a step of distance d lets each place hold the last 2d elements. The steps are
    written out where the length is a number; else they are the turns of a Loop.
    """
    length = op.sizes(values[0])[axis]
    if is_symbolic(length):
        return _in_a_loop(op, values, axis, combine)
    found, distance = list(values), 1
    while distance < length:
        found = _doubled(op, found, axis, op.const([distance]), op.const([-distance]), combine)
        distance *= 2
    return found


def running_product(op: Op, x: Value, axis: int) -> Value:
    """The product of the elements up to each place. CumProd is there from opset 26 on."""
    if op.opset >= 26:
        return op.CumProd(x, axis)
    (found,) = prefixes(op, [x], axis, lambda before, after: [op.Mul(before[0], after[0])])
    return found


def _doubled(
    op: Op, values: Sequence[Value], axis: int, distance: Value, before_end: Value, combine: Combine
) -> list[Value]:
    heads = [op.Slice(x, [0], distance, [axis]) for x in values]
    earlier = [op.Slice(x, [0], before_end, [axis]) for x in values]
    later = [op.Slice(x, distance, [LAST], [axis]) for x in values]
    joined = zip(heads, combine(earlier, later), values, strict=True)
    return [op.typed(op.Concat(head, tail, axis=axis), op.sizes(x)) for head, tail, x in joined]


def _in_a_loop(op: Op, values: Sequence[Value], axis: int, combine: Combine) -> list[Value]:
    """Turns go on while the distance is less than the length."""
    first, length = op.const([1]), op.shape([op.sizes(values[0])[axis]])
    turn, going = op.formal(ir.DataType.INT64, []), op.formal(ir.DataType.BOOL, [])
    distance = op.formal(ir.DataType.INT64, [1])
    carried = [op.formal(x.dtype, op.sizes(x)) for x in values]

    def body() -> list[Value]:
        after = op.Mul(distance, 2)
        again = op.Squeeze(op.Less(after, length), [0])
        return [again, after, *_doubled(op, carried, axis, distance, op.Neg(distance), combine)]

    graph = op.graph([turn, going, distance, *carried], body)
    start = op.Squeeze(op.Less(first, length), [0])
    _, *found = op.Loop(None, start, first, *values, body=graph, outputs=1 + len(values))
    for result, x in zip(found, values, strict=True):
        result.dtype = x.dtype
        op.typed(result, op.sizes(x))
    return found
