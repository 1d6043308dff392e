"""Rows for fx_passes/passes/complex_linalg.py and complex_factors.py. The signs of vectors are free: only values are
compared here, and tests/exporter/test_linalg.py looks at the vectors."""

from __future__ import annotations

import torch

from tests.cases.complex import BOTH, SQUARE, row
from tests.cases.ops import f, v

aten = torch.ops.aten

POSITIVE = v([[4, 1j, 0.5], [-1j, 3, 1 - 1j], [0.5, 1 + 1j, 5]])
TRIANGLE = v([[2 + 1j, 0, 0], [1j, 1 - 1j, 0], [0.5, 1, -3j]])
UPPER = v([[2 + 1j, 1, 0.5], [0, 1 - 1j, 1j], [0, 0, -3j]])
SINGULAR = v([[1, 1j], [1j, -1]])
PIVOTS = v([3, 2, 3], torch.int32)
FACTOR = f(3, 3)
REFLECTED, TAUS = f(4, 3), f(3)

EIGEN = (aten.linalg_eig.default, aten.linalg_eigvals.default, aten._linalg_eigvals.default)
"""Their order is clear for a triangle; tests/exporter/test_linalg_eig.py looks at other matrices, and at vectors."""

CASES = (
    row(aten.linalg_inv_ex.default, SQUARE),
    row(aten.linalg_matrix_exp.default, SQUARE),
    row(aten._linalg_solve_ex.default, SQUARE, f(3, 2), results=1, dtypes=BOTH),
    row(aten._linalg_solve_ex.default, SQUARE, f(3), results=1),
    row(aten._linalg_solve_ex.default, SQUARE, f(2, 3), left=False, results=1),
    row(aten._linalg_solve_ex.default, f(2, 3, 3), f(2, 3, 1), results=1, dynamic="b 3 3, b 3 1"),
    row(aten.linalg_solve_triangular.default, TRIANGLE, f(3, 2), upper=False),
    row(aten.linalg_solve_triangular.default, TRIANGLE, f(2, 3), upper=False, left=False),
    row(aten.linalg_solve_triangular.default, SQUARE, f(3, 2), upper=True, unitriangular=True),
    *(
        row(aten.triangular_solve.default, f(3, 2), SQUARE, upper, transpose)
        for upper in (True, False)
        for transpose in (True, False)
    ),
    row(aten.linalg_cholesky_ex.default, POSITIVE, vary={"upper": (False, True)}, dtypes=BOTH),
    row(aten.linalg_cholesky_ex.default, v([[4, 0, 0], [0, 1, 0], [0, 0, -1.0]]), results=2, compare="shape"),
    *((row(aten.cholesky.default, POSITIVE, True),) if hasattr(aten, "cholesky") else ()),  # until PyTorch 2.14
    *(row(aten.cholesky_solve.default, f(3, 2), SQUARE, upper) for upper in (False, True)),
    *(row(aten.cholesky_inverse.default, POSITIVE, upper) for upper in (False, True)),
    row(aten.linalg_pinv.atol_rtol_tensor, f(4, 3), dtypes=BOTH),
    row(aten.linalg_pinv.atol_rtol_tensor, f(2, 3, 4), atol=v(0.1, torch.float32), rtol=v(0.2, torch.float32)),
    row(aten.linalg_pinv.atol_rtol_tensor, SINGULAR),
    row(aten.linalg_pinv.atol_rtol_tensor, POSITIVE, hermitian=True),
    row(aten._linalg_svd.default, f(3, 4), False, False),
    row(aten._linalg_svd.default, f(4, 3), vary={"full_matrices": (False, True)}, compare="shape"),
    row(aten._linalg_svd.default, f(2, 0, 3), vary={"full_matrices": (False, True)}, compare="shape"),
    *(row(aten._linalg_eigh.default, SQUARE, uplo, compute_v=False) for uplo in "LU"),
    row(aten._linalg_eigh.default, SQUARE, "L", results=1, dtypes=BOTH),
    row(aten._linalg_eigh.default, f(2, 0, 0), "L"),
    *(row(op, UPPER, results=1, dtypes=BOTH) for op in EIGEN),
    *(row(op, f(2, 3, 3), compare="shape", dynamic="b 3 3") for op in EIGEN),
    *(row(aten.linalg_qr.default, f(4, 3), mode, dtypes=BOTH) for mode in ("reduced", "complete", "r")),
    *(row(aten.linalg_qr.default, f(2, 3, 4), mode) for mode in ("reduced", "complete")),
    row(aten.geqrf.default, f(2, 4, 3), dtypes=BOTH),
    row(aten.geqrf.default, SQUARE),
    row(aten.linalg_householder_product.default, REFLECTED, TAUS),
    *(
        row(aten.ormqr.default, REFLECTED, TAUS, f(4, 2) if left else f(2, 4), left, transpose)
        for left in (True, False)
        for transpose in (True, False)
    ),
    *(row(aten.linalg_lu_factor_ex.default, f(*sizes), dtypes=BOTH) for sizes in ((2, 3, 3), (4, 3), (3, 5))),
    row(aten.linalg_lu_factor_ex.default, SINGULAR),
    *(row(aten.linalg_lu.default, f(*sizes)) for sizes in ((2, 3, 3), (4, 3), (3, 5))),
    row(aten.lu_unpack.default, FACTOR, PIVOTS, vary={"unpack_data": (True, False)}),
    *(
        row(aten.linalg_lu_solve.default, FACTOR, PIVOTS, f(3, 2) if left else f(2, 3), left=left, adjoint=adjoint)
        for left in (True, False)
        for adjoint in (True, False)
    ),
    row(aten._linalg_det.default, f(2, 3, 3), results=1, dtypes=BOTH),
    row(aten._linalg_det.default, SINGULAR, results=1),
    row(aten._linalg_slogdet.default, f(2, 3, 3), results=2),
    row(aten._linalg_slogdet.default, SINGULAR, results=2),
)
