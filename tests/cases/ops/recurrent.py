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
)
