"""Control flow: each body is lowered in place, as a graph that reads outer values by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.fx import GraphModule

from fxport.exporter.lowering.lower.builder import Op, Scalar, Size, Value, is_not_zero
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.shape import spread
from fxport.fx_passes.sizes import is_symbolic, unfolded

hop = torch.ops.higher_order

Operand = Value | Scalar


@lowering(hop.cond)
def cond(
    op: Op, pred: Value | Scalar, on_true: GraphModule, on_false: GraphModule, operands: Sequence[Operand] = ()
) -> Sequence[Value]:
    """If. Its branches may return tensors of different sizes."""
    if isinstance(pred, bool):
        return op.inline(on_true if pred else on_false, operands)
    then, other = op.body(on_true, operands), op.body(on_false, operands)
    chosen = op.const(pred, dtype=ir.DataType.BOOL)
    return op.If(chosen, then_branch=then, else_branch=other, outputs=len(then.outputs))


@lowering(hop.while_loop)
def while_loop(
    op: Op, cond_fn: GraphModule, body_fn: GraphModule, carried: Sequence[Operand], additional: Sequence[Operand] = ()
) -> Sequence[Value]:
    """Loop, whose condition is computed once before it and then at the end of each turn."""
    start = [op.const(each) for each in carried]
    return _loop(op, cond_fn, body_fn, start, additional, _continues(op, cond_fn, start, additional))


@lowering(hop.while_loop_stack_output)
def while_loop_stack_output(
    op: Op, cond_fn: GraphModule, body_fn: GraphModule, carried: Sequence[Operand], additional: Sequence[Operand] = ()
) -> Sequence[Value]:
    """Loop, with what each turn carries on as scan outputs: stacked along a new first axis.

    Without a turn PyTorch gives a stack of what was carried in.
    """
    start = [op.const(each) for each in carried]
    first = _continues(op, cond_fn, start, additional)
    stacked = op.graph((), lambda: _loop(op, cond_fn, body_fn, start, additional, first, stacked=True)[len(start) :])
    alone = op.graph((), lambda: [op.Unsqueeze(each, [0]) for each in start])
    return op.If(first, then_branch=stacked, else_branch=alone, outputs=len(start))


def _continues(op: Op, cond_fn: GraphModule, state: Sequence[Value], additional: Sequence[Operand]) -> Value:
    (found,) = op.inline(cond_fn, [*state, *additional])
    return found


def _loop(
    op: Op,
    cond_fn: GraphModule,
    body_fn: GraphModule,
    start: Sequence[Value],
    additional: Sequence[Operand],
    first: Value,
    stacked: bool = False,
) -> Sequence[Value]:
    """The last states, and with `stacked` those of all turns behind them. `first` tells whether there is a turn."""
    state = [op.formal(each.dtype, op.sizes(each)) for each in start]

    def turn() -> list[Value]:
        after = op.inline(body_fn, [*state, *additional])
        return [_continues(op, cond_fn, after, additional), *after, *(after if stacked else ())]

    body = op.graph([op.formal(ir.DataType.INT64, ()), op.formal(ir.DataType.BOOL, ()), *state], turn)
    return op.Loop(None, first, *start, body=body, outputs=len(body.outputs) - 1)


@lowering(hop.scan)
def scan(
    op: Op, combine_fn: GraphModule, init: Sequence[Value], xs: Sequence[Value], additional: Sequence[Operand] = ()
) -> Sequence[Value]:
    """Scan over the first axis. Where it may be empty, a Loop: ONNX Runtime's Scan has one turn at least."""
    if op.sizes(xs[0])[0] == 0:
        return [*init, *(spread(op, 0, kind.dtype, kind.sizes) for kind in op.outs[len(init) :])]
    if not is_not_zero(op.sizes(xs[0])[0]):
        return _loop_over(op, combine_fn, init, xs, additional)
    state = [op.formal(each.dtype, op.sizes(each)) for each in init]
    slices = [op.formal(each.dtype, op.sizes(each)[1:]) for each in xs]
    body = op.graph([*state, *slices], lambda: op.inline(combine_fn, [*state, *slices, *additional]))
    return op.Scan(*init, *xs, body=body, num_scan_inputs=len(xs), outputs=len(body.outputs))


def _loop_over(
    op: Op, combine_fn: GraphModule, init: Sequence[Value], xs: Sequence[Value], additional: Sequence[Operand]
) -> Sequence[Value]:
    """As a Scan, turn by turn."""
    state = [op.formal(each.dtype, op.sizes(each)) for each in init]
    number, going = op.formal(ir.DataType.INT64, ()), op.formal(ir.DataType.BOOL, ())

    def turn() -> list[Value]:
        slices = [op.typed(op.Gather(each, number, axis=0), op.sizes(each)[1:]) for each in xs]
        return [op.Identity(going), *op.inline(combine_fn, [*state, *slices, *additional])]

    body = op.graph([number, going, *state], turn)
    turns = op.reshape(op.shape(op.sizes(xs[0])[:1]), ())
    first = None if init else op.const(True)  # ONNX wants two inputs at least
    results = op.Loop(turns, first, *init, body=body, outputs=len(body.outputs) - 1)
    stacks = zip(results[len(init) :], op.outs[len(init) :], strict=True)
    return [*results[: len(init)], *(_with_sizes(op, stack, kind.sizes) for stack, kind in stacks)]


def _with_sizes(op: Op, stack: Value, sizes: Sequence[Size]) -> Value:
    """A stack with its sizes: where there is none to stack, ONNX Runtime makes every size 0 that the model leaves open.

    Sizes that only the body knows stay as they are.
    """
    symbols = {symbol for size in sizes[1:] if is_symbolic(size) for symbol in unfolded(size).free_symbols}
    if not symbols or not symbols <= op.symbols.sources.keys():
        return stack
    return op.Reshape(stack, op.shape(sizes))


@lowering(hop.map_impl)
def map_impl(op: Op, body_fn: GraphModule, xs: Sequence[Value], pos_args: Sequence[Operand]) -> Sequence[Value]:
    """Scan without a state."""
    return scan.function(op, body_fn, (), xs, pos_args)


@lowering(hop.invoke_subgraph)
def invoke_subgraph(op: Op, subgraph: GraphModule, identifier: Any, *operands: Operand) -> Sequence[Value]:
    """The nodes of the subgraph, written here; those of several calls may become one function in the end."""
    return op.inline(subgraph, operands, region=str(identifier))
