"""Rows for exporter/lowering/lowerings/error_function.py."""

import math

import torch

from tests.cases.ops import FLOATS, OpCase, f, i, v

aten = torch.ops.aten

EDGES = v((0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 5.0, -5.0, 9.5, 14.0, -26.0, math.inf, -math.inf, math.nan, 1e-30))
WITHIN = v((0.0, -0.0, 1.0, -1.0, 0.5, -0.9, 0.9999, 0.9999999, 1.5, math.nan, 1e-30))
SHARES = v((0.0, 1.0, 0.5, 0.25, 1e-30, 1e-38, 0.9999999, 1.5, -0.5, math.nan))

CASES = (
    *(
        OpCase(op, f(3, 4, low=-5, high=5), dtypes=dtypes, dynamic="n m")
        for op, dtypes in ((aten.erfc.default, FLOATS), (aten.special_erfcx.default, FLOATS[:2]))
    ),
    *(OpCase(op, EDGES) for op in (aten.erfc.default, aten.special_erfcx.default)),
    *(OpCase(op, i(5, low=-3, high=4)) for op in (aten.erfc.default, aten.special_erfcx.default)),
    OpCase(aten.erfinv.default, f(3, 4, low=-1, high=1), dtypes=FLOATS, dynamic="n m"),
    OpCase(aten.erfc.default, f(0, 3)),
    OpCase(aten.erfinv.default, WITHIN, dtypes=(torch.float32, torch.float64)),
    OpCase(aten.special_ndtri.default, f(3, 4, low=0, high=1), dtypes=FLOATS[:2], dynamic="n m"),
    OpCase(aten.special_ndtri.default, SHARES, dtypes=FLOATS[:2]),
)
