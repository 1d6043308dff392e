"""Packed sequences: the steps of sequences of different lengths, without padding, and recurrent layers of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch

import fxport.fx_passes.packed_sequences  # registers the ops
from fxport.exporter.lowering.lower.builder import Op, Size, Value, Values
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.recurrent import GRU, LSTM, RELU, TANH, Layers, recurrent
from fxport.exporter.lowering.lowerings.recurrent_steps import Kind

aten, fxport = torch.ops.aten, torch.ops.fxport

PADDED = "fxport.padded"
"""Value metadata, in memory only: the `Padded` that a packed value was made from."""


@dataclass(frozen=True, slots=True)
class Padded:
    """Padded form of a packed value: `steps` [time, batch, *], of which each sequence has the first `lengths`
    [batch].
    """

    steps: Value
    lengths: Value


@lowering(fxport.pack.default)
def pack(op: Op, x: Value, lengths: Value, batch_first: bool) -> Values:
    """pack(Tensor x, Tensor lengths, bool batch_first) -> (Tensor, Tensor)"""
    padded = Padded(_first_axes_swapped(op, x) if batch_first else x, lengths)
    held = _held(op, padded, op.ReduceMax(lengths, keepdims=0))
    return [_packed(op, padded), op.ReduceSum(op.Cast(held, to=ir.DataType.INT64), [1], keepdims=0)]


@lowering(fxport.unpack.default)
def unpack(op: Op, data: Value, batch_sizes: Value, batch_first: bool, value: float, time: Size, batch: Size) -> Values:
    """unpack(Tensor data, Tensor batch_sizes, bool batch_first, float value, SymInt time, SymInt batch) -> (Tensor, Tensor)"""  # noqa: E501
    sizes = op.sizes(data)[1:]
    padded = _padded(op, data, batch_sizes, batch)
    steps = op.Slice(padded.steps, [0], op.shape([op.sizes(batch_sizes)[0]]), [0])
    missing = op.Sub(op.shape([time]), op.Shape(steps, start=0, end=1))
    rank = 2 + len(sizes)
    wide = op.Pad(steps, op.Concat(op.const([0] * rank), missing, op.const([0] * (rank - 1)), axis=0))
    mask = op.Reshape(_held(op, padded, op.const(time)), op.shape([time, batch, *([1] * len(sizes))]))
    filled = op.Where(mask, wide, op.const(value, like=data))
    return [_first_axes_swapped(op, filled, len(sizes)) if batch_first else filled, padded.lengths]


@lowering(aten.lstm.data)
def lstm(op: Op, data: Value, batch_sizes: Value, hx: Values, params: Values, *layers: Any) -> Values:
    """lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)"""  # noqa: E501
    return _recurrent(op, LSTM, data, batch_sizes, hx, params, layers)


@lowering(aten.gru.data)
def gru(op: Op, data: Value, batch_sizes: Value, hx: Value, params: Values, *layers: Any) -> Values:
    """gru.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)"""  # noqa: E501
    return _recurrent(op, GRU, data, batch_sizes, [hx], params, layers)


@lowering(aten.rnn_tanh.data)
def rnn_tanh(op: Op, data: Value, batch_sizes: Value, hx: Value, params: Values, *layers: Any) -> Values:
    """rnn_tanh.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)"""  # noqa: E501
    return _recurrent(op, TANH, data, batch_sizes, [hx], params, layers)


@lowering(aten.rnn_relu.data)
def rnn_relu(op: Op, data: Value, batch_sizes: Value, hx: Value, params: Values, *layers: Any) -> Values:
    """rnn_relu.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)"""  # noqa: E501
    return _recurrent(op, RELU, data, batch_sizes, [hx], params, layers)


def _recurrent(
    op: Op, kind: Kind, data: Value, batch_sizes: Value, states: Values, params: Values, layers: Sequence[Any]
) -> Values:
    """The layers run over the padded steps: ONNX's operators take the lengths, in any order."""
    padded = _padded(op, data, batch_sizes, op.sizes(states[0])[1])
    given = Layers(*layers, batch_first=False)
    steps, *lasts = recurrent(op, kind, padded.steps, states, params, given, padded.lengths)
    return [_packed(op, Padded(steps, padded.lengths)), *lasts]


def _padded(op: Op, data: Value, batch_sizes: Value, batch: Size) -> Padded:
    """Return the value before it was packed if it is known; else place the steps, with 0 between them."""
    if PADDED in data.meta:
        return data.meta[PADDED]
    time = op.sizes(batch_sizes)[0]
    sequences = op.Range(0, op.const(batch), 1)
    held = op.Less(sequences, op.Unsqueeze(batch_sizes, [1]))
    zeros = op.Expand(op.const(0, like=data), op.shape([time, batch, *op.sizes(data)[1:]]))
    steps = op.ScatterND(zeros, op.Transpose(op.NonZero(held), perm=[1, 0]), data)
    return Padded(steps, op.ReduceSum(op.Cast(held, to=ir.DataType.INT64), [0], keepdims=0))


def _packed(op: Op, padded: Padded) -> Value:
    """[all, *]: the first step of every sequence, then the second of every one that has it, and so on."""
    held = _held(op, padded, op.Squeeze(op.Shape(padded.steps, start=0, end=1), [0]))
    data = op.GatherND(padded.steps, op.Transpose(op.NonZero(held), perm=[1, 0]))
    data.meta[PADDED] = padded
    return data


def _held(op: Op, padded: Padded, time: Value) -> Value:
    """[time, batch]: whether a sequence has that step."""
    return op.Less(op.Unsqueeze(op.Range(0, time, 1), [1]), padded.lengths)


def _first_axes_swapped(op: Op, x: Value, more: int | None = None) -> Value:
    rank = op.rank(x) if more is None else 2 + more
    return op.Transpose(x, perm=[1, 0, *range(2, rank)])
