"""Rows for exporter/lowering/lowerings/fold.py."""

import torch

from tests.cases.ops import OpCase, f

aten = torch.ops.aten
# ONNX Runtime's CPU provider has Col2Im in float32 alone: float64 would be computed there in float32.
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
SUMS = {
    "tol": {torch.float16: (1e-3, 2e-3), torch.bfloat16: (1.6e-2, 2e-2)},
    "why": "PyTorch rounds each sum of two halves; a sum in float32 is rounded once",
}

CASES = (
    OpCase(
        aten.col2im.default,
        f(2, 12, 12),
        [4, 5],
        [2, 2],
        [1, 1],
        [0, 0],
        [1, 1],
        dtypes=FLOATS,
        dynamic="n 12 12",
        **SUMS,
    ),
    OpCase(aten.col2im.default, f(2, 12, 9), [6, 7], [2, 3], [2, 1], [1, 0], [2, 2]),
    OpCase(aten.col2im.default, f(12, 12), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1]),
    OpCase(
        aten.pixel_shuffle.default, f(2, 8, 3, 4), 2, dtypes=(*FLOATS, torch.float64, torch.int64), dynamic="n 8 h w"
    ),
    OpCase(aten.pixel_shuffle.default, f(9, 3, 4), 3, dynamic="9 h w"),
    OpCase(aten.pixel_shuffle.default, f(2, 3, 4, 2, 3), 2, dynamic="a b 4 h w"),
    OpCase(aten.pixel_shuffle.default, f(2, 8, 3, 4), 1),
    OpCase(
        aten.pixel_unshuffle.default, f(2, 3, 6, 4), 2, dtypes=(*FLOATS, torch.float64, torch.int64), dynamic="n 3 6 4"
    ),
    OpCase(aten.pixel_unshuffle.default, f(2, 6, 9), 3),
    OpCase(aten.pixel_unshuffle.default, f(2, 3, 4, 2, 6), 2, dynamic="a b 4 2 6"),
    OpCase(aten.pixel_unshuffle.default, f(2, 8, 3, 4), 1),
)
