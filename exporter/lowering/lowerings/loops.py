"""Loops that a lowering writes itself: over states of fixed sizes, or over elements until all of them are done."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from fxport.exporter.lowering.lower.builder import Op, Size, Value

Step = Callable[[Value, Sequence[Value]], tuple[Value | None, Sequence[Value]]]


def loop(op: Op, turns: Value | Size, states: Sequence[Value], step: Step) -> tuple[Value, ...]:
    """Build a Loop that updates states over a number of iterations; they keep their dtypes and sizes, which must be
    known.

    `step(turn, states)` returns whether to go on (a BOOL of no axes; None for always) and the new states; `turn` is an
    INT64 of no axes. With 0 iterations the states stay as they are.
    """
    sizes = [op.sizes(state) for state in states]
    turn, going = op.formal(ir.DataType.INT64, []), op.formal(ir.DataType.BOOL, [])
    carried = [op.formal(state.dtype, size) for state, size in zip(states, sizes, strict=True)]

    def body() -> list[Value]:
        more, after = step(turn, carried)
        return [going if more is None else more, *after]

    graph = op.graph([turn, going, *carried], body)
    results = op.Loop(op.const(turns, dtype=ir.DataType.INT64), None, *states, body=graph, outputs=len(states))
    for result, state, size in zip(results, states, sizes, strict=True):
        result.dtype = state.dtype
        op.typed(result, size)
    return results


def repeat(op: Op, turns: Value | int, states: Sequence[Value], step: Step) -> tuple[Value, ...]:
    """A loop over states that are first expanded to the sizes of the op's result."""
    sizes = op.out.sizes
    shape = op.shape(sizes)
    return loop(op, turns, [op.typed(op.Expand(state, shape), sizes) for state in states], step)


def any_of(op: Op, condition: Value) -> Value:
    """Compute whether any element is true, as a BOOL of no axes; False for no elements."""
    return op.Cast(op.ReduceSum(op.Cast(condition, to=ir.DataType.INT32), keepdims=0), to=ir.DataType.BOOL)
