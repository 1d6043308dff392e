"""Singular values, pseudo-inverses; singular vectors, whose signs are free, are in tests/exporter/test_linalg.py."""

import torch

from tests.cases.ops import OpCase, f, v

aten = torch.ops.aten

DOUBLES = (torch.float32, torch.float64)
VALUES = {"compute_uv": (False,)}
FULL = {"full_matrices": (False, True)}
SPECIAL = [[[0.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0, -1.0], [-1.0, 1.0]], [[3.0, 0.0], [0.0, -2.0]]]

CASES = (
    OpCase(aten._linalg_svd.default, f(3, 4, 4), dtypes=DOUBLES, vary=VALUES, dynamic="b 4 4"),
    OpCase(aten._linalg_svd.default, f(6, 3), dtypes=DOUBLES, vary=VALUES, dynamic="m 3"),
    OpCase(aten._linalg_svd.default, f(2, 3, 6), dtypes=DOUBLES, vary=VALUES, dynamic="2 3 n"),
    OpCase(aten._linalg_svd.default, v(SPECIAL), vary=VALUES),
    OpCase(aten._linalg_svd.default, f(2, 5, 3), vary=FULL, compare="shape", dynamic="b 5 3"),
    OpCase(aten._linalg_svd.default, f(3, 5), vary=FULL, compare="shape", dynamic="m n"),
    OpCase(aten._linalg_svd.default, f(2, 0, 3), vary=FULL),
    OpCase(aten._linalg_svd.default, f(3, 0), vary={**FULL, "compute_uv": (False, True)}),
    OpCase(aten._linalg_svd.default, f(0, 3, 2)),
    OpCase(torch.svd, f(0, 0)),
    OpCase(aten.linalg_pinv.atol_rtol_tensor, f(2, 5, 3), dtypes=DOUBLES, dynamic="b 5 3"),
    OpCase(aten.linalg_pinv.atol_rtol_tensor, f(3, 5), rtol=v(0.3, torch.float64), dynamic="m n"),
    OpCase(aten.linalg_pinv.atol_rtol_tensor, f(2, 4, 3), atol=v([0.5, 0.0], torch.float64)),
    OpCase(aten.linalg_pinv.atol_rtol_tensor, v(SPECIAL), vary={"hermitian": (False, True)}, dtypes=DOUBLES),
    OpCase(aten.linalg_pinv.atol_rtol_tensor, f(2, 0, 3)),
    OpCase(torch.linalg.pinv, f(3, 3), rtol=1e-3, atol=1e-4),
    OpCase(torch.linalg.matrix_rank, v(SPECIAL)),
)
