"""Rows for exporter/lowering/lowerings/polynomials.py."""

import torch

from fxport.exporter.lowering.lowerings.polynomials import FAMILIES, SHIFTED
from tests.cases.ops import OpCase, f, i, v

DOUBLE = (torch.float32, torch.float64)
PACKETS = (*FAMILIES, *SHIFTED)
PLACES = v((0.0, 1.0, -1.0, 0.5, 1.5, -0.3, 0.9))

CASES = (
    *(OpCase(op.default, f(3, 4), i(4, low=-1, high=5), dtypes=DOUBLE, dynamic="n 4, 4") for op in PACKETS),
    *(OpCase(op.default, f(3), v(((0,), (1,), (4,), (9,), (12,))), opsets=()) for op in PACKETS),
    *(OpCase(op.n_scalar, PLACES, degree, dtypes=DOUBLE, opsets=()) for op in PACKETS for degree in (0, 1, 5)),
    *(OpCase(op.default, f(0, 3), i(3)) for op in PACKETS),
    *(OpCase(op.x_scalar, 0.7, i(5, low=0, high=6), opsets=()) for op in PACKETS),
)
