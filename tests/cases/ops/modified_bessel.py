"""Rows for exporter/lowering/lowerings/modified_bessel.py."""

import math

import torch

from tests.cases.ops import FLOATS, OpCase, f, i, v

aten = torch.ops.aten

DOUBLE = FLOATS[:2]
SCALED = (aten.special_i0e.default, aten.special_i1e.default)
GROWING = (
    aten.i0.default,
    aten.special_i1.default,
    aten.special_modified_bessel_i0.default,
    aten.special_modified_bessel_i1.default,
)
DECAYING = (
    aten.special_modified_bessel_k0.default,
    aten.special_modified_bessel_k1.default,
    aten.special_scaled_modified_bessel_k0.default,
    aten.special_scaled_modified_bessel_k1.default,
)
EDGES = v((0.0, 1e-10, 0.1, 1.0, 1.99, 2.01, 7.99, 8.01, 20.0, 60.0))

CASES = (
    *(OpCase(op, f(3, 4, low=-9, high=9), dtypes=DOUBLE, dynamic="n m") for op in (*SCALED, *GROWING)),
    *(OpCase(op, f(3, 4, low=0, high=9), dtypes=DOUBLE, dynamic="n m") for op in DECAYING),
    *(OpCase(op, EDGES) for op in (*SCALED, *GROWING, *DECAYING)),
    *(OpCase(op, i(5, low=0, high=9)) for op in (*SCALED, *GROWING, *DECAYING)),
    *(OpCase(op, v((-0.5, -3.0, -12.0, math.nan))) for op in (*SCALED, *GROWING, *DECAYING)),
    *(OpCase(op, v((math.inf, -math.inf))) for op in SCALED),
)
