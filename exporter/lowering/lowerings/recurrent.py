"""Recurrent layers: ONNX's LSTM, GRU and RNN, one for each layer, and Scan for what these do not have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value, Values
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import LAST
from fxport.exporter.lowering.lowerings.recurrent_steps import Direction, Kind, cell, step_by_step
from fxport.exporter.lowering.lowerings.reduce import may_be_empty

aten = torch.ops.aten


LSTM = Kind("LSTM", (0, 3, 1, 2))
"""PyTorch: input, forget, cell, output. ONNX: input, output, forget, cell."""

GRU = Kind("GRU", (1, 0, 2))
"""PyTorch: reset, update, new. ONNX: update, reset, hidden."""

TANH, RELU = Kind("RNN", (0,), "Tanh"), Kind("RNN", (0,), "Relu")


@dataclass(frozen=True, slots=True)
class Layers:
    """The arguments that every recurrent op has after its input, its states and its parameters."""

    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1


@lowering(aten.lstm.input)
def lstm(op: Op, x: Value, hx: Values, params: Values, *layers: Any) -> Values:
    """lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    return recurrent(op, LSTM, x, hx, params, Layers(*layers))


@lowering(aten.gru.input)
def gru(op: Op, x: Value, hx: Value, params: Values, *layers: Any) -> Values:
    """gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)"""  # noqa: E501
    return recurrent(op, GRU, x, [hx], params, Layers(*layers))


@lowering(aten.rnn_tanh.input)
def rnn_tanh(op: Op, x: Value, hx: Value, params: Values, *layers: Any) -> Values:
    """rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)"""  # noqa: E501
    return recurrent(op, TANH, x, [hx], params, Layers(*layers))


@lowering(aten.rnn_relu.input)
def rnn_relu(op: Op, x: Value, hx: Value, params: Values, *layers: Any) -> Values:
    """rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)"""  # noqa: E501
    return recurrent(op, RELU, x, [hx], params, Layers(*layers))


@lowering(aten.lstm_cell.default)
def lstm_cell(op: Op, x: Value, hx: Values, *params: Value | None) -> Values:
    """lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)"""  # noqa: E501
    return cell(op, LSTM, x, hx, Direction(*params))  # type: ignore[arg-type]  # weights are never None


@lowering(aten.gru_cell.default)
def gru_cell(op: Op, x: Value, hx: Value, *params: Value | None) -> Value:
    """gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor"""
    return cell(op, GRU, x, [hx], Direction(*params))[0]  # type: ignore[arg-type]


@lowering(aten.rnn_tanh_cell.default)
def rnn_tanh_cell(op: Op, x: Value, hx: Value, *params: Value | None) -> Value:
    """rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor"""  # noqa: E501
    return cell(op, TANH, x, [hx], Direction(*params))[0]  # type: ignore[arg-type]


@lowering(aten.rnn_relu_cell.default)
def rnn_relu_cell(op: Op, x: Value, hx: Value, *params: Value | None) -> Value:
    """rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor"""  # noqa: E501
    return cell(op, RELU, x, [hx], Direction(*params))[0]  # type: ignore[arg-type]


def recurrent(
    op: Op, kind: Kind, x: Value, states: Values, params: Values, layers: Layers, lengths: Value | None = None
) -> Values:
    """The output for all steps, and for each state of the op the last ones of all layers.

    x is [time, batch, features], or batch first; a state is [layers · directions, batch, features]. With `lengths`
    [batch], INT64, a sequence ends before the time does; what the output is from there on is left open.

    ONNX Runtime's operators end the process where there is no row or no step (1.31). Where data tell the number of
    rows, one of zeros is added, and cut off behind. No step is an error in PyTorch, and one here of the first Gather.
    With `lengths` there are both: PyTorch packs no empty batch.
    """
    zeros = all(map(_is_zeros, states))
    groups = _by_direction(params, layers)
    has_row_more = False
    if layers.batch_first:
        sizes = op.sizes(x)
        x = op.typed(op.Transpose(x, perm=[1, 0, 2]), (sizes[1], sizes[0], sizes[2]))
    if lengths is None and not _goes_step_by_step(x, groups[0]):
        time, batch, _ = op.sizes(x)
        if may_be_empty(time):
            checked = op.Concat(op.Gather(x, [0], axis=0), op.Slice(x, [1], [LAST], [0]), axis=0)
            x = op.typed(checked, op.sizes(x))
        has_row_more = may_be_empty(batch)
    if has_row_more:
        x, states = _with_row(op, x), [state if zeros else _with_row(op, state) for state in states]
    starts = list(zip(*(_by_layer(op, state, layers) for state in states), strict=True))
    lasts = []
    for number, (start, group) in enumerate(zip(starts, groups, strict=True)):
        final = number == layers.num_layers - 1
        steps, *last = _layer(op, kind, x, start, group, lengths, zeros)
        x = _side_by_side(op, steps, layers.directions, batch_first=final and layers.batch_first)
        if layers.dropout and layers.train and not final:
            x = op.Dropout(x, layers.dropout, True, outputs=2)[0]
        lasts.append(last)
    results = [_joined(op, each) for each in zip(*lasts, strict=True)]
    if not has_row_more:
        return [x, *results]
    return [_without_row(op, x, 0 if layers.batch_first else 1), *(_without_row(op, each, 1) for each in results)]


def _with_row(op: Op, x: Value) -> Value:
    """[any, batch + 1, any]: a row of zeros behind the others."""
    first, batch, last = op.sizes(x)
    return op.typed(op.Pad(x, [0, 0, 0, 0, 1, 0]), (first, batch + 1, last))


def _without_row(op: Op, x: Value, axis: int) -> Value:
    return op.Slice(x, [0], [-1], [axis])


def _by_layer(op: Op, state: Value, layers: Layers) -> Sequence[Value]:
    if layers.num_layers == 1:
        return [state]
    parts = op.Split(state, axis=0, num_outputs=layers.num_layers, outputs=layers.num_layers)
    return [op.typed(part, (layers.directions, *op.sizes(state)[1:])) for part in parts]


def _by_direction(params: Values, layers: Layers) -> list[list[Direction]]:
    """The parameters of each layer, for each of its directions."""
    size = len(params) // (layers.num_layers * layers.directions)
    groups = [params[at : at + size] for at in range(0, len(params), size)]
    each = [_direction(group, layers.has_biases) for group in groups]
    return [each[at : at + layers.directions] for at in range(0, len(each), layers.directions)]


def _direction(group: Values, has_biases: bool) -> Direction:
    w_ih, w_hh, *rest = group
    biases = rest[:2] if has_biases else [None, None]
    projection = rest[2:] if has_biases else rest
    return Direction(w_ih, w_hh, *biases, *projection)


def _layer(
    op: Op,
    kind: Kind,
    x: Value,
    start: Values,
    group: Sequence[Direction],
    lengths: Value | None,
    zeros: bool,
) -> Values:
    """One layer: [time, directions, batch, features] for all steps, and the last states, [directions, batch, features].

    Where the states are `zeros`, they are left out: that is ONNX's default.
    ONNX has no projections, and ONNX Runtime (1.31) computes none of the operators in DOUBLE, although it says so of
    two: these layers go step by step.
    """
    if _goes_step_by_step(x, group):
        return step_by_step(op, kind, x, start, group, lengths)
    w = _weights(op, kind, [each.w_ih for each in group])
    r = _weights(op, kind, [each.w_hh for each in group])
    b = _biases(op, kind, group)
    options: dict[str, Any] = {
        "hidden_size": op.sizes(group[0].w_hh)[1],
        "direction": "bidirectional" if len(group) == 2 else None,
        "linear_before_reset": 1 if kind is GRU else None,
        "activations": [kind.activation] * len(group) if kind.activation else None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    ends = None if lengths is None else op.Cast(lengths, to=ir.DataType.INT32)
    rest: list[Value | None] = [b, ends, *([] if zeros else start)]
    while rest and rest[-1] is None:
        rest.pop()
    return op.call(kind.op_type, x, w, r, *rest, outputs=len(start) + 1, **given)


def _goes_step_by_step(x: Value, group: Sequence[Direction]) -> bool:
    return group[0].w_hr is not None or x.dtype == ir.DataType.DOUBLE


def _weights(op: Op, kind: Kind, group: Values) -> Value:
    """[directions, gates · hidden, features]: PyTorch's weights of each direction, gates in ONNX's order."""
    rows, width = op.sizes(group[0])
    return op.reshape(_in_order(op, kind, group), [len(group), rows, width])


def _biases(op: Op, kind: Kind, group: Sequence[Direction]) -> Value | None:
    """[directions, 2 · gates · hidden]: for each direction the input's biases and then the state's."""
    biases = [bias for each in group for bias in (each.b_ih, each.b_hh) if bias is not None]
    if not biases:
        return None
    return op.reshape(_in_order(op, kind, biases), [len(group), 2 * op.sizes(biases[0])[0]])


def _in_order(op: Op, kind: Kind, parts: Values) -> Value:
    """The parts one below the other, the gates of each in ONNX's order."""
    rows, *width = op.sizes(parts[0])
    sizes = (len(parts) * rows, *width)
    stacked = parts[0] if len(parts) == 1 else op.typed(op.Concat(*parts, axis=0), sizes)
    if len(kind.gates) == 1:
        return stacked
    places = np.arange(int(sizes[0])).reshape(len(parts), len(kind.gates), -1)
    return op.typed(op.Gather(stacked, places[:, kind.gates].ravel(), axis=0), sizes)


def _is_zeros(state: Value) -> bool:
    """Return True if the model makes its initial state of zeros."""
    content, producer = state.const_value, state.producer()
    if producer is not None and producer.op_type == "ConstantOfShape" and "value" in producer.attributes:
        content = producer.attributes["value"].as_tensor()
    return isinstance(content, ir.Tensor) and not content.numpy().any()


def _side_by_side(op: Op, steps: Value, directions: int, *, batch_first: bool) -> Value:
    """[time, directions, batch, features] with the directions' features in one axis."""
    if directions == 1:
        flat = op.Squeeze(steps, [1])
        return op.Transpose(flat, perm=[1, 0, 2]) if batch_first else flat
    order = [2, 0, 1, 3] if batch_first else [0, 2, 1, 3]
    return op.Reshape(op.Transpose(steps, perm=order), [0, 0, -1])


def _joined(op: Op, states: Values) -> Value:
    return states[0] if len(states) == 1 else op.Concat(*states, axis=0)
