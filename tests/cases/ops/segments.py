"""Rows for exporter/lowering/lowerings/segments.py."""

import torch

from tests.cases.ops import OpCase, f, v

aten = torch.ops.aten
INT = torch.int64
HOW = {"reduce": ("sum", "mean", "max", "min", "prod"), "initial": (None, 2)}
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SUMS = {
    "tol": {torch.float16: (1e-3, 2e-3), torch.bfloat16: (1.6e-2, 2e-2)},
    "why": "PyTorch rounds each sum of two halves; a sum in float32 is rounded once",
}

CASES = (
    OpCase(aten.repeat_interleave.Tensor, v([2, 0, 3, 1], INT)),
    OpCase(aten.repeat_interleave.Tensor, v([2, 0, 3, 1], torch.int32), output_size=6),
    OpCase(aten.repeat_interleave.Tensor, v([0, 0], INT)),
    OpCase(aten.segment_reduce.default, f(7, 3), vary=HOW, lengths=v([2, 0, 4, 1], INT), axis=0, dtypes=FLOATS, **SUMS),
    OpCase(aten.segment_reduce.default, f(7, 3), vary=HOW, offsets=v([0, 2, 2, 6, 7], INT), axis=0),
    OpCase(aten.segment_reduce.default, f(2, 5), vary=HOW, lengths=v([[2, 0, 3], [1, 1, 3]], INT), axis=1),
    OpCase(aten.segment_reduce.default, f(7), "sum", lengths=v([2, 5], torch.int32), axis=0, unsafe=True),
    OpCase(
        aten.segment_reduce.default,
        v([1.0, float("nan"), 2.0, 3.0]),
        vary=HOW,
        lengths=v([2, 2], INT),
        axis=0,
        dtypes=FLOATS,
    ),
    OpCase(aten.segment_reduce.default, f(7, 3), "max", lengths=v([2, 0, 4, 1], INT), axis=0, dynamic="7 n"),
)
