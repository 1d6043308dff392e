"""Cholesky factorization, and what is solved with it."""

import torch

from tests.cases.ops import OpCase, f, v

aten = torch.ops.aten

DOUBLES = (torch.float32, torch.float64)
UPPER = {"upper": (False, True)}
POSITIVE = [[[4.0, 1.0, 0.5], [1.0, 3.0, 1.0], [0.5, 1.0, 2.0]], [[2.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 5.0]]]
LOWER_ONLY = [[4.0, 7.0, 8.0], [1.0, 3.0, 9.0], [0.5, 1.0, 2.0]]
INDEFINITE = [[[1.0, 0.0], [0.0, -1.0]], [[0.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]]

OLD = (OpCase(aten.cholesky.default, v(POSITIVE), dtypes=DOUBLES, vary=UPPER),) if hasattr(aten, "cholesky") else ()
"""Until PyTorch 2.14."""

CASES = (
    OpCase(aten.linalg_cholesky_ex.default, v(POSITIVE), dtypes=DOUBLES, vary=UPPER),
    OpCase(aten.linalg_cholesky_ex.default, v(LOWER_ONLY)),
    OpCase(aten.linalg_cholesky_ex.default, f(1, 1, low=0.5, high=2.0), dynamic="1 1"),
    OpCase(aten.linalg_cholesky_ex.default, f(2, 0, 0)),
    OpCase(lambda a: torch.linalg.cholesky_ex(a).info, v(INDEFINITE)),
    OpCase(lambda a: torch.linalg.cholesky(a @ a.mT), f(2, 5, 7), dtypes=DOUBLES, dynamic="b 5 7"),
    *OLD,
    OpCase(aten.cholesky_solve.default, f(2, 3, 4), v(POSITIVE), dtypes=DOUBLES, vary=UPPER, dynamic="2 3 k, 2 3 3"),
    OpCase(aten.cholesky_solve.default, f(4, 1, 3, 2), v(POSITIVE)),
    OpCase(aten.cholesky_inverse.default, v(POSITIVE), dtypes=DOUBLES, vary=UPPER),
    OpCase(aten.cholesky_inverse.default, f(0, 0)),
)
