"""Recurrent layers step by step, as Scan: for projections, and for a dtype that the recurrent operators lack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from fxport.exporter.lowering.lower.builder import Op, Value, Values


@dataclass(frozen=True, slots=True)
class Kind:
    """A recurrent operator of ONNX, and its gates in ONNX's order, by the places that they have in PyTorch's."""

    op_type: str
    gates: tuple[int, ...]
    activation: str | None = None


@dataclass(frozen=True, slots=True)
class Direction:
    """The parameters of one layer in one direction: of the input, of the state, both biases, and of the projection."""

    w_ih: Value
    w_hh: Value
    b_ih: Value | None = None
    b_hh: Value | None = None
    w_hr: Value | None = None


def step_by_step(
    op: Op, kind: Kind, x: Value, start: Values, group: Sequence[Direction], lengths: Value | None = None
) -> Values:
    """Compute the results of ONNX's recurrent operators: outputs [time, directions, batch, features], and the last
    states.
    """
    runs = [_run(op, kind, x, start, each, lengths, backwards=number == 1) for number, each in enumerate(group)]
    *lasts, steps = zip(*runs, strict=True)
    return [_stacked(op, steps, 1), *(_stacked(op, each, 0) for each in lasts)]


def cell(op: Op, kind: Kind, x: Value, states: Values, it: Direction) -> Values:
    """The states after one step, from x [batch, features] and the states before it."""
    share = op.Gemm(x, it.w_ih, *([] if it.b_ih is None else [it.b_ih]), transB=1)
    return CELLS[kind.op_type](op, kind, share, states, it)


def _stacked(op: Op, values: Values, axis: int) -> Value:
    apart = [op.Unsqueeze(value, [axis]) for value in values]
    return apart[0] if len(apart) == 1 else op.Concat(*apart, axis=axis)


def _run(
    op: Op, kind: Kind, x: Value, start: Values, it: Direction, lengths: Value | None, *, backwards: bool
) -> Values:
    """The last states, each [batch, features], and the outputs, [time, batch, features], of one direction.

    The input's share of all gates is one product for all steps. Where a sequence has ended, its states stay.
    """
    number = int(backwards)
    initial = [op.typed(op.Gather(state, number, axis=0), op.sizes(state)[1:]) for state in start]
    share = op.MatMul(x, op.Transpose(it.w_ih, perm=[1, 0]))
    if it.b_ih is not None:
        share = op.Add(share, it.b_ih)
    state = [op.formal(each.dtype, op.sizes(each)) for each in initial]
    step = op.formal(x.dtype, (op.sizes(initial[0])[0], op.sizes(it.w_ih)[0]))

    held, active = [], []
    if lengths is not None:
        time = op.Squeeze(op.Shape(x, start=0, end=1), [0])
        held = [op.Less(op.Unsqueeze(op.Range(0, time, 1), [1, 2]), op.Unsqueeze(lengths, [1]))]
        active = [op.formal(ir.DataType.BOOL, (op.sizes(initial[0])[0], 1))]

    def turn() -> Values:
        new = CELLS[kind.op_type](op, kind, step, state, it)
        new = [op.Where(active[0], *each) for each in zip(new, state, strict=True)] if active else new
        return [*new, new[0]]

    return op.Scan(
        *initial,
        share,
        *held,
        body=op.graph([*state, step, *active], turn),
        num_scan_inputs=1 + len(held),
        scan_input_directions=[1] * (1 + len(held)) if backwards else None,
        scan_output_directions=[1] if backwards else None,
        outputs=len(initial) + 1,
    )


def _from_state(op: Op, hidden: Value, it: Direction) -> Value:
    """The state's share of all gates."""
    return op.Gemm(hidden, it.w_hh, *([] if it.b_hh is None else [it.b_hh]), transB=1)


def _rnn(op: Op, kind: Kind, share: Value, states: Values, it: Direction) -> Values:
    assert kind.activation is not None
    return [op.call(kind.activation, op.Add(share, _from_state(op, states[0], it)))]


def _gru(op: Op, kind: Kind, share: Value, states: Values, it: Direction) -> Values:
    """Cho et al. (arXiv:1406.1078), with the reset gate after the product, as in PyTorch."""
    (hidden,) = states
    x_reset, x_update, x_new = op.Split(share, axis=1, num_outputs=3, outputs=3)
    h_reset, h_update, h_new = op.Split(_from_state(op, hidden, it), axis=1, num_outputs=3, outputs=3)
    reset, update = op.Sigmoid(op.Add(x_reset, h_reset)), op.Sigmoid(op.Add(x_update, h_update))
    new = op.Tanh(op.Add(x_new, op.Mul(reset, h_new)))
    return [op.Add(new, op.Mul(update, op.Sub(hidden, new)))]


def _lstm(op: Op, kind: Kind, share: Value, states: Values, it: Direction) -> Values:
    """Gers et al. (2000); the projection of the output is that of Sak et al. (arXiv:1402.1128)."""
    hidden, cell = states
    gates = op.Add(share, _from_state(op, hidden, it))
    take, forget, new, give = op.Split(gates, axis=1, num_outputs=4, outputs=4)
    cell = op.Add(op.Mul(op.Sigmoid(forget), cell), op.Mul(op.Sigmoid(take), op.Tanh(new)))
    hidden = op.Mul(op.Sigmoid(give), op.Tanh(cell))
    return [hidden if it.w_hr is None else op.Gemm(hidden, it.w_hr, transB=1), cell]


Cell = Callable[[Op, Kind, Value, Values, Direction], Values]
"""(kind, the input's share of the gates, states, parameters) → the new states, the first of which is the output."""

CELLS: Mapping[str, Cell] = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}
