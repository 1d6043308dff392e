"""Rows for exporter/lowering/lowerings/gamma.py."""

import math

import torch

from tests.cases.ops import FLOATS, OpCase, f, i, v

aten = torch.ops.aten

DOUBLE = FLOATS[:2]
EDGES = v((1.0, 2.0, 1.5, 0.5, 1e-6, 7.9, 8.1, 30.0, 1e4, -0.5, -1.5, -7.3, -20.5, math.inf, math.nan))
POLES = v((0.0, -1.0, -2.0, -30.0, -math.inf))
PLACES = v((0.3, 1.0, 2.5, 12.0, 400.0, -0.5, -3.25, 0.0, math.nan))

CASES = (
    *(
        OpCase(op, f(3, 4, low=-5, high=9), dtypes=FLOATS, dynamic="n m")
        for op in (aten.lgamma.default, aten.digamma.default)
    ),
    *(OpCase(op, EDGES, dtypes=DOUBLE) for op in (aten.lgamma.default, aten.digamma.default)),
    *(OpCase(op, POLES) for op in (aten.lgamma.default, aten.digamma.default)),
    *(OpCase(op, i(5, low=1, high=9)) for op in (aten.lgamma.default, aten.digamma.default)),
    *(OpCase(aten.polygamma.default, n, f(3, 4, low=0.1, high=9), dynamic="n m") for n in range(6)),
    *(OpCase(aten.polygamma.default, n, v((0.3, 1.0, 12.0, 400.0, -0.5, -3.25)), dtypes=DOUBLE) for n in range(5)),
    OpCase(aten.polygamma.default, 1, v((float("inf"), 2.0)), dtypes=DOUBLE),
    OpCase(aten.special_zeta.default, f(3, 4, low=1, high=9), f(4, low=0, high=20), dtypes=DOUBLE, dynamic="n 4, 4"),
    OpCase(aten.special_zeta.default, v((1.5, 2.0, 3.0, 30.0, 2.5, 1.0, 0.5, 2.0, 3.0)), PLACES, dtypes=DOUBLE),
    OpCase(aten.special_zeta.other_scalar, f(5, low=1, high=9), 0.7),
    OpCase(aten.special_zeta.default, f(0, 3), f(3)),
    OpCase(aten.special_zeta.self_scalar, 3, f(5, low=-4, high=9)),
)
