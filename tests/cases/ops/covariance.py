"""Rows for fx_passes/decompositions/covariance.py."""

import torch

from tests.cases.ops import OpCase, f, v

aten = torch.ops.aten

WIDE = (torch.float32, torch.float64)
COUNTS = v([1, 2, 1, 3, 1], torch.int64)

CASES = (
    OpCase(aten.cov.default, f(3, 5), vary={"correction": (0, 1, 2)}, dtypes=WIDE, dynamic="m n"),
    OpCase(aten.cov.default, f(5)),
    OpCase(aten.cov.default, f(1, 5)),
    OpCase(aten.cov.default, f(3, 5), correction=7),
    OpCase(aten.cov.default, f(3, 5), dtypes=(torch.int64, torch.complex64)),
    OpCase(aten.cov.default, f(3, 5), vary={"fweights": (COUNTS, None), "correction": (0, 1)}, aweights=f(5, low=0.1)),
    OpCase(aten.cov.default, f(3, 5), vary={"correction": (0, 1)}, fweights=COUNTS),
    OpCase(aten.corrcoef.default, f(3, 5), dtypes=(*WIDE, torch.int64, torch.complex64), dynamic="m n"),
    OpCase(aten.corrcoef.default, f(5)),
)
