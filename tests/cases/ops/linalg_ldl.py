"""Rows for exporter/lowering/lowerings/linalg_ldl.py."""

import torch

from tests.cases.ops import OpCase, f, v

aten = torch.ops.aten

DOUBLES = (torch.float32, torch.float64)
INDEFINITE = [
    [[0.0, 1.0, 2.0, 0.5], [1.0, 0.0, 0.25, 3.0], [2.0, 0.25, 0.0, 1.0], [0.5, 3.0, 1.0, 0.0]],
    [[4.0, 1.0, 2.0, 0.5], [1.0, 5.0, 0.25, 3.0], [2.0, 0.25, 6.0, 1.0], [0.5, 3.0, 1.0, 7.0]],
    [[0.1, 9.0, 2.0, 0.5], [9.0, 5.0, 0.25, 3.0], [2.0, 0.25, 0.2, 1.0], [0.5, 3.0, 1.0, 0.0]],
]
SINGULAR = [[[1.0, 2.0], [2.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 3.0]]]
PIVOTS = [[-3, -3, 3, 4], [1, -4, -4, 4], [1, 4, 3, 4]]

CASES = (
    OpCase(aten.linalg_ldl_factor_ex.default, v(INDEFINITE), dtypes=DOUBLES, dynamic="b 4 4"),
    OpCase(aten.linalg_ldl_factor_ex.default, v(SINGULAR)),
    OpCase(aten.linalg_ldl_factor_ex.default, f(7, 7), dtypes=DOUBLES, dynamic="n n"),
    OpCase(aten.linalg_ldl_factor_ex.default, f(2, 3, 5, 5), vary={"hermitian": (False, True)}),
    OpCase(aten.linalg_ldl_factor_ex.default, f(2, 0, 0)),
    OpCase(aten.linalg_ldl_factor_ex.default, f(0, 3, 3)),
    OpCase(aten.linalg_ldl_factor_ex.default, f(1, 1)),
    OpCase(aten.linalg_ldl_factor.default, v(INDEFINITE)),
    OpCase(aten.linalg_ldl_solve.default, f(3, 4, 4), v(PIVOTS, torch.int32), f(3, 4, 2), dtypes=DOUBLES),
    OpCase(aten.linalg_ldl_solve.default, f(4, 4), v(PIVOTS[0], torch.int32), f(4, 3), dynamic="4 4, 4, 4 m"),
    OpCase(
        aten.linalg_ldl_solve.default, f(3, 4, 4), v(PIVOTS, torch.int32), f(3, 4, 1)
    ),  # other batches crash PyTorch
    OpCase(aten.linalg_ldl_solve.default, f(0, 0), v([], torch.int32), f(0, 2)),
)
