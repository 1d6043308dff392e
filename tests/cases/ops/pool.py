"""Rows for exporter/lowering/lowerings/pool.py."""

import math

import torch

from tests.cases.ops import INTS, OpCase, f, i, v

aten = torch.ops.aten

MAX = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
AVG = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
AVG_3D = (torch.float32, torch.float64, torch.int64)
BOTH = (False, True)
AROUND = {"padding": [1, 2], "stride": [2, 3]}
ALL_AVERAGES = {"ceil_mode": BOTH, "count_include_pad": BOTH, "divisor_override": (None, 5)}


def _first_of_indices(x: torch.Tensor) -> torch.Tensor:
    return aten.max_pool1d_with_indices.default(x, [2])[0]


LOWEST = torch.finfo(torch.float32).min
LOW = v([[-math.inf] * 4 + [LOWEST, -math.inf, 1.0, -math.inf] + [LOWEST] * 2])
"""Windows of two: of infinities alone, of one and the lowest number, of one and a number, and of the lowest number."""

CASES = (
    OpCase(aten.max_pool1d.default, LOW, [2], dtypes=MAX),
    OpCase(
        aten.max_pool1d.default, f(2, 3, 10), [3], [2], [1], [2], vary={"ceil_mode": BOTH}, dtypes=MAX, dynamic="n 3 l"
    ),
    OpCase(aten.max_pool1d.default, f(3, 10), [3]),  # no batch
    OpCase(aten.max_pool2d.default, f(2, 3, 8, 9), [3, 2], [2], [1], vary={"ceil_mode": BOTH}, dynamic="n 3 h w"),
    OpCase(aten.max_pool2d.default, f(2, 3, 8, 9), [3, 2], [2], [1], dtypes=(*MAX, *INTS)),
    OpCase(aten.max_pool2d.default, f(2, 3, 8, 9), [2], vary={"ceil_mode": BOTH}, dynamic="n c h w"),
    OpCase(aten.max_pool2d.default, f(3, 8, 9), [2, 3], [3, 3], [0, 1], [2, 1], True, dynamic="3 h w"),
    OpCase(aten.max_pool2d.default, f(0, 3, 8, 9), [2, 2]),
    OpCase(aten.max_pool2d.default, f(1, 2, 5, 5), [2, 2], [3, 3], [0, 0], [3, 3], True),  # reaches out by 2
    OpCase(aten.max_pool2d.default, f(1, 2, 4, 6), [2, 2], [3, 3], [1, 1], [1, 1], True),  # rounded up in one axis
    OpCase(aten.max_pool3d.default, f(1, 2, 5, 6, 7), [2], [2, 1, 2], [1, 0, 1], [1], True, dtypes=(*MAX, *INTS)),
    OpCase(aten.max_pool3d.default, f(1, 2, 5, 6, 7), [2], [2, 1, 2], [1, 0, 1], [1], True, dynamic="n 2 d h w"),
    OpCase(aten.max_pool1d_with_indices.default, f(2, 3, 10), [3], [2], [1], [1], True, dynamic="n 3 l"),
    OpCase(
        aten.max_pool2d_with_indices.default,
        f(2, 3, 8, 9),
        [3, 2],
        vary={"dilation": ([1], [2]), "ceil_mode": BOTH},
        dtypes=(torch.float32, torch.float64),
        dynamic="n 3 h w",
        **AROUND | {"padding": [1, 1]},
    ),
    OpCase(_first_of_indices, LOW, dtypes=MAX),
    OpCase(aten.max_pool2d_with_indices.default, i(2, 3, 8, 9, high=3), [2, 2]),  # the first of equals
    OpCase(aten.max_pool2d_with_indices.default, f(3, 8, 9), [2, 2], dynamic="3 h w"),
    OpCase(
        aten.max_pool3d_with_indices.default, f(2, 2, 5, 6, 7), [2, 3, 2], [1, 2, 2], [1, 0, 1], dynamic="n 2 d h w"
    ),
    OpCase(
        aten.avg_pool1d.default,
        f(2, 3, 10),
        [4],
        [3],
        [2],
        vary={"ceil_mode": BOTH, "count_include_pad": BOTH},
        dtypes=(*AVG, torch.int64),
        dynamic="n 3 l",
    ),
    OpCase(aten.avg_pool1d.default, f(3, 10), [3], dynamic="3 l"),
    OpCase(aten.avg_pool2d.default, f(2, 3, 8, 9), [3, 4], vary=ALL_AVERAGES, dtypes=AVG, dynamic="n 3 h w", **AROUND),
    OpCase(
        aten.avg_pool2d.default, i(2, 3, 8, 9, low=-9, high=9), [3, 4], vary=ALL_AVERAGES, dynamic="n 3 h w", **AROUND
    ),
    OpCase(aten.avg_pool2d.default, f(3, 8, 9), [2], dynamic="3 h w"),
    OpCase(
        aten.avg_pool3d.default,
        f(2, 3, 5, 6, 7),
        [2, 3, 2],
        [2, 2, 3],
        [1, 1, 0],
        vary=ALL_AVERAGES,
        dtypes=AVG_3D,
        dynamic="n 3 d h w",
    ),
)
