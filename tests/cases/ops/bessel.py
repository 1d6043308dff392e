"""Rows for exporter/lowering/lowerings/bessel.py."""

import math

import torch

from tests.cases.ops import FLOATS, OpCase, f, i, v

aten = torch.ops.aten

DOUBLE = FLOATS[:2]
EVERYWHERE = (
    aten.special_bessel_j0.default,
    aten.special_bessel_j1.default,
    aten.special_spherical_bessel_j0.default,
)
POSITIVE = (aten.special_bessel_y0.default, aten.special_bessel_y1.default)
EDGES = v((0.0, 1e-10, 0.1, 1.0, 2.4, 3.8, 4.99, 5.01, 7.99, 8.01, 20.0, 100.0, 1000.0))
TOLERANCE = {torch.float64: (0.0, 1e-6)}
WHY = "PyTorch's own are off by up to 9e-7 from 5 on, in float64 too"

CASES = (
    *(OpCase(op, f(3, 4, low=-15, high=15), dtypes=DOUBLE, dynamic="n m", tol=TOLERANCE, why=WHY) for op in EVERYWHERE),
    *(OpCase(op, f(3, 4, low=0, high=15), dtypes=DOUBLE, dynamic="n m", tol=TOLERANCE, why=WHY) for op in POSITIVE),
    *(OpCase(op, EDGES) for op in (*EVERYWHERE, *POSITIVE)),
    *(OpCase(op, i(5, low=0, high=9)) for op in (*EVERYWHERE, *POSITIVE)),
    *(OpCase(op, v((-0.5, -3.0, -12.0, math.nan))) for op in (*EVERYWHERE, *POSITIVE)),
)
