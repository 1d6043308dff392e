"""Rows for exporter/lowering/lowerings/packed.py: three sequences of 4, 2 and 2 steps."""

from __future__ import annotations

from typing import Any

import torch

import fxport.fx_passes.packed_sequences  # registers the ops
from tests.cases.ops import OpCase, f, v
from tests.cases.ops.recurrent import FEATURES, FLOATS, GATES, HIDDEN, TOL, WHY, small

aten, fxport = torch.ops.aten, torch.ops.fxport

LENGTHS, BATCH_SIZES = v([4, 2, 2], torch.int64), v([3, 3, 1, 1], torch.int64)
STEPS, BATCH = 8, 3

PACKED = {
    aten.lstm.data: GATES[aten.lstm.input],
    aten.gru.data: GATES[aten.gru.input],
    aten.rnn_tanh.data: 1,
    aten.rnn_relu.data: 1,
}


def case(target: Any, **options: Any) -> OpCase:
    """A row of a layer in both directions, with biases."""
    rows = PACKED[target] * HIDDEN
    one_way = [small(rows, FEATURES), small(rows, HIDDEN), small(rows), small(rows)]
    state = f(2, BATCH, HIDDEN)
    hx = [state, state] if target == aten.lstm.data else state
    return OpCase(target, f(STEPS, FEATURES), BATCH_SIZES, hx, one_way * 2, True, 1, 0.0, False, True, **options)


CASES = (
    OpCase(fxport.pack.default, f(5, BATCH, FEATURES), LENGTHS, False),
    OpCase(fxport.pack.default, f(BATCH, 4), LENGTHS, True, dtypes=FLOATS),
    OpCase(fxport.pack.default, f(BATCH, 4, 2, 3), LENGTHS, True),
    OpCase(fxport.unpack.default, f(STEPS, FEATURES), BATCH_SIZES, False, 0.0, 4, BATCH, dtypes=FLOATS),
    OpCase(fxport.unpack.default, f(STEPS), BATCH_SIZES, True, -1.5, 6, BATCH),
    OpCase(fxport.unpack.default, f(STEPS, 2, 3), BATCH_SIZES, True, 0.5, 4, BATCH),
    *(case(target, dtypes=FLOATS, tol=TOL, why=WHY) for target in PACKED),
)
