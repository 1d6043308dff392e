"""Rows for exporter/lowering/lowerings/random_gamma.py; tests/exporter/test_random.py looks at the distributions."""

import torch

from tests.cases.ops import FLOATS, OpCase, f, v

aten = torch.ops.aten

LIKE = {"dynamic": "n 3", "compare": "shape"}
WIDE = (torch.float32, torch.float64)
POSITIVE = f(2, 3, low=0.1, high=20.0)

CASES = (
    OpCase(aten._standard_gamma.default, POSITIVE, dtypes=WIDE, **LIKE),
    OpCase(aten._standard_gamma.default, f(0, 3), compare="shape"),
    OpCase(aten._sample_dirichlet.default, POSITIVE, dtypes=WIDE, compare="shape", dynamic="n m"),
    OpCase(aten.poisson.default, POSITIVE, dtypes=FLOATS, **LIKE),
    OpCase(aten.poisson.default, v([0.0, 0.0])),
    OpCase(aten.binomial.default, POSITIVE, f(2, 3, low=0.0), dtypes=WIDE, compare="shape", dynamic="n m, n m"),
    OpCase(aten.binomial.default, v([0.0, 7.0, 7.0, 100.0, 100.0]), v([0.5, 0.0, 1.0, 0.0, 1.0])),
)
