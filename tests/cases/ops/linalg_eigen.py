"""Eigenvalues of symmetric matrices; their vectors, whose signs are free, are in tests/exporter/test_linalg.py."""

import torch

from tests.cases.ops import OpCase, f, v

aten = torch.ops.aten

DOUBLES = (torch.float32, torch.float64)
VALUES = {"compute_v": (False,), "UPLO": ("L", "U")}
SPECIAL = [[[0.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0, -1.0], [-1.0, 1.0]], [[3.0, 0.0], [0.0, -2.0]]]

CASES = (
    OpCase(aten._linalg_eigh.default, f(3, 5, 5), dtypes=DOUBLES, vary=VALUES, dynamic="b 5 5"),
    OpCase(aten._linalg_eigh.default, f(6, 6), compute_v=False, dynamic="n n"),
    OpCase(aten._linalg_eigh.default, f(2, 4, 4), results=1),
    OpCase(aten._linalg_eigh.default, f(2, 4, 4), compare="shape", dynamic="b n n"),
    OpCase(aten._linalg_eigh.default, f(0, 3, 3)),
    OpCase(aten._linalg_eigh.default, f(2, 0, 0)),
    OpCase(aten._linalg_eigh.default, f(1, 1)),
    OpCase(aten._linalg_eigh.default, v(SPECIAL), results=1),
)
