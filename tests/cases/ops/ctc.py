"""Rows for exporter/lowering/lowerings/ctc.py."""

import torch

from tests.cases.ops import OpCase, f, v

aten = torch.ops.aten

INT64 = torch.int64
WIDE = (torch.float32, torch.float64)
LOGS = f(6, 3, 5, low=-4.0, high=-0.2)
PADDED = v([[1, 2, 2, 4], [3, 3, -1, -1], [4, 1, 1, 1]], INT64)
JOINED = v([1, 2, 2, 4, 3, 3], INT64)
FULL, LENGTHS = v([6, 6, 6], INT64), v([4, 2, 0], INT64)
"""The last sequence has no targets."""
SHORT = v([6, 2, 0], INT64)
"""Too short for two equal targets, and nothing at all."""
OPTIONS = {"reduction": (0, 1, 2), "zero_infinity": (False, True)}

CASES = (
    OpCase(aten.ctc_loss.Tensor, LOGS, PADDED, FULL, LENGTHS, vary=OPTIONS, dtypes=WIDE),
    OpCase(aten.ctc_loss.Tensor, LOGS, PADDED, SHORT, LENGTHS, vary=OPTIONS),
    OpCase(aten.ctc_loss.Tensor, LOGS, JOINED, FULL, LENGTHS, vary=OPTIONS, dtypes=WIDE),
    OpCase(aten.ctc_loss.Tensor, LOGS, v([1, 2, 3, 0, 0, 3], torch.int32), FULL, LENGTHS, blank=4, reduction=0),
    OpCase(aten.ctc_loss.Tensor, f(6, 5, low=-4.0, high=-0.2), v([1, 2, 2], INT64), v(6, INT64), v(3, INT64)),
    OpCase(aten.ctc_loss.Tensor, LOGS, v([[], [], []], INT64), FULL, v([0, 0, 0], INT64), reduction=0),
    OpCase(
        aten.ctc_loss.Tensor,
        LOGS,
        v([[1, 2], [3, 3], [4, 1]], INT64),
        FULL,
        v([2, 1, 2], INT64),
        reduction=0,
        dynamic="t 3 5,,,",
    ),
    OpCase(aten.ctc_loss.IntList, LOGS, PADDED, [6, 5, 4], [4, 2, 0], vary=OPTIONS),
    OpCase(aten.ctc_loss.IntList, LOGS, JOINED, [6, 5, 4], [4, 2, 0], vary=OPTIONS),
)
