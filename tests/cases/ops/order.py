"""Rows for exporter/lowering/lowerings/order.py."""

import torch

from tests.cases.ops import ALL, FLOATS, INTS, OpCase, f, i, v

aten = torch.ops.aten

NAN, INF = float("nan"), float("inf")
NUMBERS = (*FLOATS, *INTS)
KEPT = {"keepdim": (False, True)}
ROWS = v([[1.0, 3.0, INF, NAN, -INF], [4.0, 2.0, 7.0, 3.0, -1.0], [1.0, NAN, NAN, 2.0, 0.0]])
DISTINCT = v([[1, 3, 9, 0, 5, 7], [4, 2, 7, 3, 8, 6]])

CASES = (
    OpCase(aten.kthvalue.default, f(4, 5, 2), 2, vary={"dim": (0, 1), **KEPT}, dynamic="n m 2"),
    OpCase(aten.kthvalue.default, DISTINCT, 4, dtypes=NUMBERS),
    OpCase(
        aten.kthvalue.default, v([[1.0, NAN, INF, -INF], [3.0, 4.0, 2.0, 1.0]]), vary={"k": (1, 3, 4)}, dtypes=FLOATS
    ),
    OpCase(aten.kthvalue.default, f(), 1),
    *(
        row
        for along, whole in ((aten.median.dim, aten.median.default), (aten.nanmedian.dim, aten.nanmedian.default))
        for row in (
            OpCase(along, f(3, 4, 5), vary={"dim": (0, 1, -1), **KEPT}, dynamic="n m k"),
            OpCase(along, DISTINCT, 1, dtypes=NUMBERS),
            OpCase(along, ROWS, 1, vary=KEPT, dtypes=FLOATS),
            OpCase(along, f(), 0),
            OpCase(whole, f(3, 4), dtypes=NUMBERS, dynamic="n m"),
            OpCase(whole, ROWS, dtypes=FLOATS),
            OpCase(whole, v([[NAN, NAN], [NAN, NAN]])),
            OpCase(whole, f()),
            OpCase(whole, f(0, 3), dtypes=ALL),
        )
    ),
    OpCase(aten.mode.default, i(4, 9, high=3), vary={"dim": (0, -1), **KEPT}, dynamic="n m"),
    OpCase(aten.mode.default, v([[1, 0, 1, 0, 1], [1, 1, 0, 0, 1]]), dtypes=ALL),
    OpCase(aten.mode.default, f()),
)
