"""Rows for exporter/lowering/lowerings/incomplete_gamma.py."""

import itertools
import math

import torch

from tests.cases.ops import OpCase, f, v

aten = torch.ops.aten

BOTH = (aten.igamma.default, aten.igammac.default)
PAIRS = tuple(itertools.product((0.0, 1e-3, 0.5, 1.0, 5.0, 30.0, math.inf, -1.0), repeat=2))
LARGE = ((150.0, 140.0), (150.0, 160.0), (1000.0, 990.0), (1000.0, 1020.0), (1e5, 1e5), (3.0, 60.0), (60.0, 3.0))

CASES = (
    *(
        OpCase(op, f(3, 4, low=0, high=9), f(4, low=0, high=9), dtypes=(torch.float32, torch.float64), dynamic="n 4, 4")
        for op in BOTH
    ),
    *(OpCase(op, f(0, 3), f(3)) for op in BOTH),
    *(OpCase(op, v([a for a, _ in PAIRS]), v([x for _, x in PAIRS])) for op in BOTH),
    *(OpCase(op, v([a for a, _ in LARGE]), v([x for _, x in LARGE]), dtypes=(torch.float64,)) for op in BOTH),
)
