"""Rows for exporter/lowering/lowerings/quantile.py."""

import torch

from tests.cases.ops import OpCase, f, v

aten = torch.ops.aten

NAN, INF = float("nan"), float("inf")
SINGLE = (torch.float32, torch.float64)
WAYS = {"interpolation": ("linear", "lower", "higher", "midpoint", "nearest")}
KEPT = {"keepdim": (False, True)}
ROWS = v([[1.0, 3.0, INF, NAN], [4.0, 2.0, 7.0, 3.0], [NAN, NAN, NAN, NAN], [-INF, 0.0, 1.0, 2.0]])

CASES = tuple(
    row
    for several, single in (
        (aten.quantile.default, aten.quantile.scalar),
        (aten.nanquantile.default, aten.nanquantile.scalar),
    )
    for row in (
        OpCase(
            several, f(3, 4), v([0.0, 0.3, 0.5, 1.0]), vary={"dim": (None, 0, -1), **KEPT}, dtypes=SINGLE, dynamic="n m"
        ),
        OpCase(several, f(3, 5, 2), v([0.1, 0.85]), 1, vary=WAYS),
        OpCase(several, ROWS, v([0.0, 0.4, 1.0]), 1, vary=WAYS, dtypes=SINGLE),
        OpCase(several, f(5), v(0.4), vary={"dim": (None, 0), **KEPT}),
        OpCase(single, f(3, 4), 0.3, vary={"dim": (None, 0, 1), **KEPT}, dynamic="n m"),
        OpCase(single, f(), 0.3),
    )
)
