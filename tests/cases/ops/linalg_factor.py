"""LU factorization with partial pivoting, and determinants."""

import torch

from tests.cases.ops import OpCase, f, i, v

aten = torch.ops.aten

DOUBLES = (torch.float32, torch.float64)
SINGULAR = [[[1.0, 2.0], [2.0, 4.0]], [[0.0, 1.0], [3.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]]
PIVOTS = [[3, 2, 3], [2, 3, 3]]

CASES = (
    OpCase(aten._linalg_det.default, f(2, 4, 4), dtypes=DOUBLES, dynamic="b 4 4", results=1),
    OpCase(aten._linalg_det.default, f(5, 5), dynamic="n n", results=1),
    OpCase(aten._linalg_det.default, f(1, 1), results=1),
    OpCase(aten._linalg_det.default, f(3, 0, 0), results=1),
    OpCase(aten._linalg_det.default, v(SINGULAR), results=1),
    OpCase(aten._linalg_slogdet.default, f(2, 3, 4, 4), dtypes=DOUBLES, dynamic="b 3 4 4", results=2),
    OpCase(aten._linalg_slogdet.default, f(0, 0), results=2),
    OpCase(aten._linalg_slogdet.default, v(SINGULAR), results=2),
    OpCase(aten.linalg_lu_factor_ex.default, f(2, 5, 5), dtypes=DOUBLES, dynamic="b n n"),
    OpCase(aten.linalg_lu_factor_ex.default, f(6, 3)),
    OpCase(aten.linalg_lu_factor_ex.default, f(3, 6), dynamic="m n"),
    OpCase(aten.linalg_lu_factor_ex.default, v(SINGULAR)),
    OpCase(aten.linalg_lu_factor_ex.default, f(2, 0, 3)),
    OpCase(aten.linalg_lu_factor_ex.default, f(0, 3, 3)),
    OpCase(aten.linalg_lu.default, f(2, 3, 4, 4), dtypes=DOUBLES, dynamic="b 3 4 4"),
    OpCase(aten.linalg_lu.default, f(2, 6, 3)),
    OpCase(aten.linalg_lu.default, f(3, 6), dynamic="m n"),
    OpCase(aten.linalg_lu.default, f(0, 3)),
    OpCase(aten.lu_unpack.default, f(2, 3, 3), v(PIVOTS, torch.int32), dtypes=DOUBLES),
    OpCase(aten.lu_unpack.default, f(2, 5, 3), v(PIVOTS, torch.int32), vary={"unpack_data": (True, False)}),
    OpCase(aten.lu_unpack.default, f(2, 3, 5), v(PIVOTS, torch.int32), vary={"unpack_pivots": (True, False)}),
    OpCase(aten.lu_unpack.default, f(1, 3, 3), i(1, 3, low=3, dtype=torch.int32), dynamic="b 3 3, b 3"),
)
