"""Rows for exporter/lowering/lowerings/floats.py."""

import itertools
import math

import torch

from tests.cases.ops import FLOATS, OpCase, f, i, v

aten = torch.ops.aten

SOME = (0.0, 1.0, -1.0, 0.5, 3.5, 65504.0, -2.0, 1e-3, math.inf, -math.inf, math.nan)
PAIRS = tuple(itertools.product(SOME, repeat=2))
TINY = (1e-45, -1e-45, 1e-40, 2.0**-126, 3e38, 5e-324, 2.0**-1022, 1e308, 2.0**52, 4.0, 8.0, 1 - 2**-24)
EXACT = dict.fromkeys(FLOATS, (0.0, 0.0))

CASES = (
    OpCase(aten.frexp.Tensor, f(2, 3), dtypes=FLOATS[:3], dynamic="n 3"),
    OpCase(aten.frexp.Tensor, v((*TINY, *SOME)), dtypes=FLOATS[:2]),
    OpCase(aten.ldexp.Tensor, f(2, 3), i(3, low=-9, high=9), dtypes=FLOATS[:3], dynamic="n 3"),
    OpCase(aten.ldexp.Tensor, i(3), i(3)),
    OpCase(
        aten.ldexp.Tensor,
        v([1e-30, 1.0, 1.5, math.nan, math.inf, 0.0, 1e-40, 1.0, 0.0]),
        v([150, -140, -24, 4, -200, 2000, 200, -2000, 9000], torch.int64),
        dtypes=FLOATS,
    ),
    OpCase(aten.ldexp.Tensor, f(3), v([1.5, -0.5, math.inf])),
    OpCase(aten.nextafter.default, f(2, 3), f(3), dtypes=FLOATS, dynamic="n 3", tol=EXACT, why="neighbours are exact"),
    *(
        OpCase(aten.nextafter.default, v(x), v(y), dtypes=FLOATS[:2], tol=EXACT, why="neighbours are exact")
        for x, y in (
            ([x for x, _ in PAIRS], [y for _, y in PAIRS]),
            (TINY, [0.0] * len(TINY)),
            (TINY, [math.inf] * len(TINY)),
        )
    ),
)
