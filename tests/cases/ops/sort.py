"""Rows for exporter/lowering/lowerings/sort.py. Where `topk` has ties the indices are open, so its rows have none."""

import torch

from tests.cases.ops import ALL, FLOATS, INTS, OpCase, f, i, v

aten = torch.ops.aten

NAN, INF = float("nan"), float("inf")
ROWS = v([[1.0, NAN, INF, NAN, -INF], [INF, 2.0, NAN, 3.0, INF], [-INF, 0.0, -1.0, -0.0, NAN]])
DISTINCT = v([[1.0, 3.0, INF, NAN, -INF], [4.0, 2.0, 7.0, 3.0, -1.0]])
WHOLE = v([[1, 3, 9, 0, 5], [4, 2, 7, 3, 8]])
UP = {"descending": (False, True)}

CASES = (
    OpCase(aten.topk.default, DISTINCT, 3, vary={"largest": (True, False)}, dtypes=FLOATS),
    OpCase(aten.topk.default, WHOLE, vary={"k": (0, 2, 5), "dim": (-1,), "largest": (True, False)}, dtypes=INTS),
    OpCase(aten.topk.default, f(4, 5, 2), 2, vary={"dim": (0, 1, -1)}, dynamic="n m 2"),
    OpCase(aten.topk.default, f(2, 0, 3), 0, 1),
    OpCase(aten.topk.default, f(0, 3), 2),
    OpCase(aten.topk.default, f(), 1),
    OpCase(aten.sort.default, f(3, 4, 2), vary={"dim": (0, -2), **UP}, dtypes=ALL, dynamic="n m 2"),
    OpCase(aten.sort.default, ROWS, vary=UP, dtypes=FLOATS),
    OpCase(aten.sort.default, f(2, 0)),
    OpCase(aten.sort.default, f(), dtypes=(torch.float32, torch.bool)),
    OpCase(aten.sort.stable, i(40, high=3), stable=True, vary=UP, dynamic="n"),
    OpCase(aten.sort.stable, ROWS, stable=True, vary=UP, dtypes=FLOATS),
    OpCase(aten.argsort.default, f(3, 4), vary=UP),
    OpCase(aten.argsort.stable, i(3, 9, high=3), stable=True, dim=1, vary=UP),
    OpCase(aten.msort.default, f(3, 4)),
)
