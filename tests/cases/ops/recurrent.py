"""Rows for exporter/lowering/lowerings/recurrent.py: the ops as torch.nn.LSTM, GRU and RNN call them."""

from __future__ import annotations

from typing import Any

import torch

from tests.cases.ops import Draw, OpCase, f

aten = torch.ops.aten

GATES = {aten.lstm.input: 4, aten.gru.input: 3, aten.rnn_tanh.input: 1, aten.rnn_relu.input: 1}

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
TOL = {torch.float16: (5e-3, 5e-3), torch.bfloat16: (2e-2, 2e-2)}
WHY = "on the CPU ONNX Runtime runs half-precision layers in float32, PyTorch rounds every step"

TIME, BATCH, FEATURES, HIDDEN = 5, 3, 4, 6


def small(*sizes: int) -> Draw:
    return f(*sizes, low=-0.5, high=0.5)


def case(
    target: Any,
    layers: int = 1,
    *,
    bias: bool = True,
    directions: int = 1,
    batch_first: bool = False,
    projection: int = 0,
    dropout: float = 0.0,
    **options: Any,
) -> OpCase:
    """A row of one op with parameters drawn in the order in which torch.nn.RNNBase flattens them."""
    gates, output = GATES[target], projection or HIDDEN
    params: list[Draw] = []
    for layer in range(layers):
        for _ in range(directions):
            width = FEATURES if layer == 0 else directions * output
            params += [small(gates * HIDDEN, width), small(gates * HIDDEN, output)]
            params += [small(gates * HIDDEN), small(gates * HIDDEN)] if bias else []
            params += [small(projection, HIDDEN)] if projection else []
    x = f(BATCH, TIME, FEATURES) if batch_first else f(TIME, BATCH, FEATURES)
    states = [f(layers * directions, BATCH, output), f(layers * directions, BATCH, HIDDEN)]
    hx = states if target == aten.lstm.input else states[0]
    layout = (bias, layers, dropout, dropout > 0, directions == 2, batch_first)
    return OpCase(target, x, hx, params, *layout, **options)


def dynamic(target: Any, batch_first: bool = False) -> str:
    states = ", 1 b h" * (2 if target == aten.lstm.input else 1)
    return ("b t 4" if batch_first else "t b 4") + states.replace("1 b h", "4 b 6")


def cell(target: Any, gates: int, *, bias: bool = True, **options: Any) -> OpCase:
    states = [f(BATCH, HIDDEN), f(BATCH, HIDDEN)] if gates == 4 else f(BATCH, HIDDEN)
    weights = [small(gates * HIDDEN, FEATURES), small(gates * HIDDEN, HIDDEN)]
    biases = [small(gates * HIDDEN), small(gates * HIDDEN)] if bias else []
    return OpCase(target, f(BATCH, FEATURES), states, *weights, *biases, **options)


CELLS = {
    aten.lstm_cell.default: 4,
    aten.gru_cell.default: 3,
    aten.rnn_tanh_cell.default: 1,
    aten.rnn_relu_cell.default: 1,
}


def _of_rows(target: Any, x: torch.Tensor, state: torch.Tensor | None, params: Any, *layers: Any) -> Any:
    """A layer over the rows that data select, perhaps none; the initial states are zeros, or rows of one."""
    rows = x[x[:, 0, 0] > 0]
    count = params[1].shape[1]
    directions = layers[1] * (2 if layers[4] else 1)
    start = rows.new_zeros(directions, rows.shape[0], count)
    start = start if state is None else start + state
    return target(rows, [start, start] if target == aten.lstm.input else start, params, *layers)


def _gru_of_rows(x: torch.Tensor, state: torch.Tensor | None, params: Any, *layers: Any) -> Any:
    return _of_rows(aten.gru.input, x, state, params, *layers)


def _lstm_of_rows(x: torch.Tensor, state: torch.Tensor | None, params: Any, *layers: Any) -> Any:
    return _of_rows(aten.lstm.input, x, state, params, *layers)


def _rnn_of_rows(x: torch.Tensor, state: torch.Tensor | None, params: Any, *layers: Any) -> Any:
    return _of_rows(aten.rnn_tanh.input, x, state, params, *layers)


NONE_SELECTED = {"low": -2.0, "high": -1.0}

OF_ROWS = tuple(
    OpCase(target, x, state, [*(small(*sizes) for sizes in shapes)], True, 1, 0.0, False, both, True, dynamic="b t 2")
    for target, gates in ((_gru_of_rows, 3), (_lstm_of_rows, 4), (_rnn_of_rows, 1))
    for both in (False, True)
    for shapes in [[(gates * 3, 2), (gates * 3, 3), (gates * 3,), (gates * 3,)] * (2 if both else 1)]
    for x, state in (
        (Draw((4, 3, 2), **NONE_SELECTED), None),
        (Draw((4, 3, 2), **NONE_SELECTED), small(3)),
        (f(6, 3, 2), None),
        (f(6, 3, 2), small(3)),
    )
)

CASES = (
    *(case(target, dtypes=FLOATS, tol=TOL, why=WHY) for target in GATES),
    *(case(target, 2, directions=2, batch_first=True, dynamic=dynamic(target, True)) for target in GATES),
    *(case(target, 2, directions=2, dynamic=dynamic(target)) for target in GATES),
    *(case(target, 2, bias=False, batch_first=True) for target in GATES),
    *(case(target, directions=2, dtypes=FLOATS, tol=TOL, why=WHY) for target in GATES),
    *(case(target, 2, dropout=0.5, compare="shape") for target in GATES),
    case(aten.lstm.input, 2, directions=2, projection=2, batch_first=True, dynamic="b t 4, 4 b 2, 4 b 6"),
    case(aten.lstm.input, projection=2, dtypes=FLOATS, tol=TOL, why=WHY),
    case(aten.lstm.input, 2, projection=2, bias=False),
    *(cell(target, gates, dtypes=FLOATS, tol=TOL, why=WHY) for target, gates in CELLS.items()),
    *(cell(target, gates, bias=False) for target, gates in CELLS.items()),
    *OF_ROWS,
)
