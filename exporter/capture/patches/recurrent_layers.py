"""Recurrent layers below autograd: each layer and direction is one scan over time, of any length, and its gradient one.

PyTorch's decomposition has the steps one by one: their number becomes a constant, and the graph grows with it. The
gradient that PyTorch gives of a scan is wrong where it is differentiated again; the one written here is not.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from fxport.diagnostics.source import place_of_stack
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.patches.body_gradients import BY_OPERATIONS, TWICE
from fxport.exporter.capture.patches.whole_ops import KEYS, registered

scan_module: Any = importlib.import_module("torch._higher_order_ops.scan")  # a function of the same name hides it
linear = torch.nn.functional.linear
aten = torch.ops.aten

DIFFERENTIATES_TWICE = torch.__version__ >= "2.13"
"""True if a scan within a gradient is differentiated as it is written; PyTorch 2.11 leaves terms out."""

Tensors = Sequence[Tensor]


@dataclass(frozen=True, slots=True)
class Cell:
    """The elementwise part of a step of a layer, on tensors [batch, features].

    Attributes:
        forward: Takes the gates of the input, those of the state, and the states before; returns the states after,
            and what the gradient needs beside them, of which there may be nothing.
        backward: Takes the gradients of the states after and of what else `forward` returned, which may be None; then
            that itself, the states after, and the states before. Returns the gradients of the gates of the input, of
            those of the state, and of the states before, where these do not come from the gates.
    """

    forward: Callable[[Tensor, Tensor, Tensors], tuple[Tensors, Tensor | None]]
    backward: Callable[[Tensors, Tensor | None, Tensor | None, Tensors, Tensors], tuple[Tensor, Tensor, list[Any]]]


def _plain(function: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor]) -> Cell:
    """Return the cell of an RNN: `slope` is the derivative of its function, given the result."""

    def forward(given: Tensor, recurrent: Tensor, before: Tensors) -> tuple[Tensors, None]:
        return [function(recurrent + given)], None

    def backward(
        grads: Tensors, _: None, __: None, after: Tensors, before: Tensors
    ) -> tuple[Tensor, Tensor, list[Any]]:
        gate = grads[0] * slope(after[0])
        return gate, gate, [None]

    return Cell(forward, backward)  # type: ignore[arg-type]  # it has nothing beside its states


def _gru(given: Tensor, recurrent: Tensor, before: Tensors) -> tuple[Tensors, Tensor]:
    (reset_in, update_in, new_in), (reset, update, new) = given.chunk(3, -1), recurrent.chunk(3, -1)
    reset, update = (reset + reset_in).sigmoid(), (update + update_in).sigmoid()
    made = (new_in + new * reset).tanh()
    return [(before[0] - made) * update + made], torch.cat([reset, update, made, new], -1)


def _gru_gradient(
    grads: Tensors, of_gates: Tensor | None, gates: Tensor, after: Tensors, before: Tensors
) -> tuple[Tensor, Tensor, list[Any]]:
    reset, update, made, new = gates.chunk(4, -1)
    further = [0, 0, 0, 0] if of_gates is None else of_gates.chunk(4, -1)
    of_made = (grads[0] * (1 - update) + further[2]) * (1 - made * made)
    of_update = (grads[0] * (before[0] - made) + further[1]) * update * (1 - update)
    of_reset = (of_made * new + further[0]) * reset * (1 - reset)
    given = torch.cat([of_reset, of_update, of_made], -1)
    return given, torch.cat([of_reset, of_update, of_made * reset + further[3]], -1), [grads[0] * update]


def _lstm(given: Tensor, recurrent: Tensor, before: Tensors) -> tuple[Tensors, Tensor]:
    enters, stays, made, leaves = (recurrent + given).chunk(4, -1)
    enters, stays, made, leaves = enters.sigmoid(), stays.sigmoid(), made.tanh(), leaves.sigmoid()
    c = stays * before[1] + enters * made
    return [leaves * c.tanh(), c], torch.cat([enters, stays, made, leaves], -1)


def _lstm_gradient(
    grads: Tensors, of_gates: Tensor | None, gates: Tensor, after: Tensors, before: Tensors
) -> tuple[Tensor, Tensor, list[Any]]:
    enters, stays, made, leaves = gates.chunk(4, -1)
    further = [0, 0, 0, 0] if of_gates is None else of_gates.chunk(4, -1)
    shown = after[1].tanh()
    of_c = grads[1] + grads[0] * leaves * (1 - shown * shown)
    each = (
        (of_c * made + further[0]) * enters * (1 - enters),
        (of_c * before[1] + further[1]) * stays * (1 - stays),
        (of_c * enters + further[2]) * (1 - made * made),
        (grads[0] * shown + further[3]) * leaves * (1 - leaves),
    )
    gate = torch.cat(each, -1)
    return gate, gate, [None, of_c * stays]


RNN_TANH = _plain(torch.tanh, lambda y: 1 - y * y)
RNN_RELU = _plain(torch.relu, lambda y: (y > 0).to(y.dtype))
GRU, LSTM = Cell(_gru, _gru_gradient), Cell(_lstm, _lstm_gradient)  # type: ignore[arg-type]  # both have gates


class _Layer(torch.autograd.Function):
    """One direction of a layer: the states after each step, and what the gradient needs beside them.

    That is an output as well, so that the gradient can be differentiated again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        cell: Cell,
        given: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        projection: Tensor | None,
        *start: Tensor,
    ) -> tuple[Tensor, ...]:
        """Run all steps. `given` [time, batch, gates] is the input's part; `projection` is for the state of an LSTM."""
        count, weights = len(start), _present(weight, bias, projection)

        def step(*tensors: Tensor) -> list[Tensor]:
            before, row = tensors[:count], tensors[count]
            weight_, bias_, projection_ = _restored(tensors[count + 1 :], bias, projection)
            after, gates = cell.forward(row, linear(before[0], weight_, bias_), before)
            if projection_ is not None:
                after = [linear(after[0], projection_), *after[1:]]
            return [*after, *(each.clone() for each in after), *_present(gates)]

        found = scan_module.scan_op(step, [each.clone() for each in start], [given], weights)[count:]
        ctx.set_materialize_grads(False)
        ctx.cell, ctx.count = cell, count
        ctx.save_for_backward(weight, bias, projection, *start, *found)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        """Run the steps from the last to the first; the weights' gradients are products over all of them.

        Raises RefusedError where it is differentiated again and PyTorch is too old for that.
        """
        if torch.is_grad_enabled() and not DIFFERENTIATES_TWICE:
            raise RefusedError(TWICE, place=place_of_stack(traceback.walk_stack(sys._getframe())), cure=BY_OPERATIONS)
        cell, count = ctx.cell, ctx.count
        weight, bias, projection, *rest = ctx.saved_tensors
        start, after, kept = rest[:count], rest[count : 2 * count], rest[2 * count :]
        before = [torch.cat([first[None], each[:-1]]) for first, each in zip(start, after, strict=True)]
        given = [*grads[:count], *(grads[count:] if kept else ())]
        rows = [*_present(*given), *kept, *after, *before]

        def step(*tensors: Tensor) -> list[Tensor]:
            carried, here = tensors[:count], iter(tensors[count : count + len(rows)])
            weight_, _, projection_ = _restored(tensors[count + len(rows) :], None, projection)
            of_rows = [None if each is None else next(here) for each in given]
            gates = next(here) if kept else None
            after_, before_ = [next(here) for _ in start], [next(here) for _ in start]
            of_states = [own if of is None else own + of for own, of in zip(carried, of_rows[:count], strict=True)]
            total = of_states[0]
            if projection_ is not None:
                of_states[0] = total @ projection_
            of_given, of_recurrent, of_before = cell.backward(
                of_states, of_rows[count] if kept else None, gates, after_, before_
            )
            back = of_recurrent @ weight_
            of_before[0] = back if of_before[0] is None else of_before[0] + back
            found = [of_given] if of_given is of_recurrent else [of_given, of_recurrent]
            return [*of_before, *(each.clone() for each in found), *([] if projection_ is None else [total.clone()])]

        zeros = [torch.zeros_like(each) for each in start]
        weights = _present(weight, projection)
        found = scan_module.scan_op(step, zeros, [each.flip(0) for each in rows], weights)
        of_start, (of_given, *others) = found[:count], [each.flip(0) for each in found[count:]]
        of_projection = None
        if projection is not None:
            unprojected = kept[0].chunk(4, -1)[3] * after[1].tanh()
            of_projection = _product(others.pop(), unprojected)
        of_recurrent = others[0] if others else of_given
        of_bias = None if bias is None else of_recurrent.flatten(0, 1).sum(0)
        return None, of_given, _product(of_recurrent, before[0]), of_bias, of_projection, *of_start


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Return the sum over time and batch of outer products."""
    return left.flatten(0, 1).mT @ right.flatten(0, 1)


def _present(*tensors: Tensor | None) -> list[Tensor]:
    return [each for each in tensors if each is not None]


def _restored(
    tensors: Tensors, bias: Tensor | None, projection: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return the weight, and the two that may be missing where they are not."""
    rest = iter(tensors)
    return next(rest), None if bias is None else next(rest), None if projection is None else next(rest)


# What PyTorch's dispatcher runs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Settings:
    """Arguments of an operator of recurrent layers behind its tensors, in the order of its schema."""

    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool


def _layers(
    cell: Cell, x: Tensor, states: Sequence[Tensor], params: Sequence[Tensor], settings: _Settings
) -> tuple[Tensor, ...]:
    """Return the output of all layers, and their last states, [layers · directions, batch, size] as `states` are."""
    directions = 2 if settings.bidirectional else 1
    size = len(params) // (settings.num_layers * directions)
    starts, lasts = list(zip(*(each.unbind(0) for each in states), strict=True)), list[Tensors]()
    x = x.transpose(0, 1) if settings.batch_first else x
    for layer in range(settings.num_layers):
        if layer and settings.train and settings.dropout:
            x = torch.dropout(x, settings.dropout, train=True)
        sides: list[Tensor] = []
        for place in range(layer * directions, (layer + 1) * directions):
            side, last = _side(
                cell, x, starts[place], params[place * size : (place + 1) * size], settings, place % directions
            )
            sides.append(side)
            lasts.append(last)
        x = sides[0] if directions == 1 else torch.cat(sides, -1)
    return x.transpose(0, 1) if settings.batch_first else x, *(torch.stack(each) for each in zip(*lasts, strict=True))


def _side(
    cell: Cell, x: Tensor, start: Tensors, params: Sequence[Tensor], settings: _Settings, is_reverse: int
) -> tuple[Tensor, Tensors]:
    """Return the output of one direction of a layer, and its last states."""
    w_ih, w_hh, *rest = params
    b_ih, b_hh = rest[:2] if settings.has_biases else (None, None)
    projection = rest[-1] if len(rest) % 2 else None
    given = linear(x, w_ih, b_ih)
    after = _Layer.apply(cell, given.flip(0) if is_reverse else given, w_hh, b_hh, projection, *start)[: len(start)]
    return after[0].flip(0) if is_reverse else after[0], [each[-1] for each in after]


def _one_state(cell: Cell) -> Callable[..., tuple[Tensor, ...]]:
    return lambda x, hx, params, *how: _layers(cell, x, [hx], params, _Settings(*how))


def _two_states(x: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], *how: Any) -> tuple[Tensor, ...]:
    return _layers(LSTM, x, hx, params, _Settings(*how))


KERNELS: Mapping[OpOverload, Callable[..., tuple[Tensor, ...]]] = {
    aten.lstm.input: _two_states,
    aten.gru.input: _one_state(GRU),
    aten.rnn_tanh.input: _one_state(RNN_TANH),
    aten.rnn_relu.input: _one_state(RNN_RELU),
}


def recurrent_layers_as_scans() -> AbstractContextManager[None]:
    """Let traced recurrent layers be scans, which drop out between one another as eager layers do.

    PyTorch's decomposition has `num_layers < i - 1` where it means `i < num_layers - 1`, and so never drops out.
    """
    return registered({op: dict.fromkeys(KEYS, kernel) for op, kernel in KERNELS.items()})
