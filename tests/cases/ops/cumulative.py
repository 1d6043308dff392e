"""Rows for exporter/lowering/lowerings/cumulative.py."""

import torch

from tests.cases.ops import ALL, FLOATS, OpCase, b, f, i, v

aten = torch.ops.aten

NAN, INF = float("nan"), float("inf")
TO = (None, torch.float64, torch.int64, torch.int8)

CASES = (
    OpCase(aten.cumsum.default, f(2, 3, 4), vary={"dim": (0, 1, -1)}, dtypes=ALL, dynamic="n m 4"),
    OpCase(aten.cumsum.default, f(2, 3), 1, vary={"dtype": TO}),
    OpCase(aten.cumsum.default, v([1.0, INF, -INF, 2.0]), 0),
    OpCase(aten.cumsum.default, f(2, 0), 1),
    OpCase(aten.cumsum.default, b(), 0),
    OpCase(aten.cumprod.default, f(2, 3, 5), vary={"dim": (0, 1, -1)}, dtypes=ALL, dynamic="n m k"),
    OpCase(aten.cumprod.default, f(2, 3), 1, vary={"dtype": TO}),
    OpCase(aten.cumprod.default, f(1, 3), 0, dynamic="1 m"),
    OpCase(aten.cumprod.default, f(2, 0), 1),
    OpCase(aten.cumprod.default, b(), 0),
    OpCase(aten.logcumsumexp.default, f(2, 3, 5), vary={"dim": (0, 1, -1)}, dtypes=FLOATS, dynamic="n m k"),
    OpCase(aten.logcumsumexp.default, v([-INF, -INF, 1000.0, 1001.0, INF, 1.0, NAN, 2.0]), 0),
    OpCase(aten.logcumsumexp.default, f(), 0),
    *(
        row
        for target in (aten.cummax.default, aten.cummin.default)
        for row in (
            OpCase(target, f(2, 3, 5), vary={"dim": (0, 1, -1)}, dtypes=ALL, dynamic="n m k"),
            OpCase(target, v([[1.0, NAN, INF, NAN, 2.0], [-INF, -INF, 3.0, 3.0, NAN]]), -1, dtypes=FLOATS),
            OpCase(target, i(11, high=4), 0, dynamic="n"),
            OpCase(target, f(2, 0), 1),
            OpCase(target, f(), 0),
        )
    ),
)
