"""Systems of linear equations, inverses, triangular systems."""

import torch

from tests.cases.ops import OpCase, f, v

aten = torch.ops.aten

DOUBLES = (torch.float32, torch.float64)
LEFT = {"left": (True, False)}
PIVOTED = [[0.0, 2.0, 1.0], [4.0, 1.0, 0.5], [1.0, 3.0, 9.0]]
FACTORS = [[[4.0, 1.0, 0.5], [0.25, 3.0, 1.0], [0.5, -0.5, 2.0]], [[2.0, 1.0, 0.0], [0.5, 2.0, 1.0], [0.1, 0.2, 5.0]]]
PIVOTS = [[3, 3, 3], [2, 2, 3]]
TRIANGLES = [[[4.0, 1.0, 0.5], [1.0, 3.0, 1.0], [0.5, -0.5, 2.0]], [[2.0, 1.0, 0.0], [0.5, 2.0, 1.0], [0.1, 0.2, 5.0]]]
WHY = "the condition number of a random matrix, about 50 here, times float32's 6e-8 and a few roundings"
TOL = {"tol": {torch.float32: (1e-4, 1e-5), torch.float64: (1e-7, 1e-7)}, "why": WHY}

CASES = (
    OpCase(aten.linalg_inv_ex.default, f(2, 4, 4), dtypes=DOUBLES, dynamic="b 4 4", **TOL),
    OpCase(aten.linalg_inv_ex.default, f(3, 3), dynamic="n n", **TOL),
    OpCase(aten.linalg_inv_ex.default, v(PIVOTED)),
    OpCase(aten.linalg_inv_ex.default, f(1, 1)),
    OpCase(aten.linalg_inv_ex.default, f(2, 0, 0)),
    OpCase(aten.linalg_inv_ex.default, v([[1.0, 2.0], [2.0, 4.0]]), compare="shape"),
    OpCase(torch.linalg.solve_ex, f(2, 4, 4), f(2, 4, 3), dtypes=DOUBLES, dynamic="b n n, b n k", **TOL),
    OpCase(torch.linalg.solve_ex, f(2, 4, 4), f(2, 4), dynamic="b 4 4, b 4", **TOL),
    OpCase(torch.linalg.solve_ex, f(4, 4), f(4), **TOL),
    OpCase(torch.linalg.solve_ex, f(3, 4, 4), f(4, 2), **TOL),
    OpCase(torch.linalg.solve_ex, f(4, 4), f(3, 4, 4), vary=LEFT, **TOL),
    OpCase(torch.linalg.solve_ex, f(2, 1, 3, 3), f(4, 3, 3), vary=LEFT, **TOL),
    OpCase(torch.linalg.solve_ex, f(0, 0), f(0, 3)),
    OpCase(torch.linalg.solve_ex, f(0, 3, 3), f(0, 3, 3)),
    OpCase(torch.linalg.solve_ex, f(3, 3), f(3, 0)),
    OpCase(torch.linalg.solve_ex, v([[1.0, 2.0], [2.0, 4.0]]), f(2, 1), compare="shape"),
    OpCase(aten._linalg_solve_ex.default, f(4, 4), f(4, 2), results=1, **TOL),
    OpCase(torch.linalg.inv, f(4, 4), **TOL),
    OpCase(
        aten.linalg_lu_solve.default, v(FACTORS), v(PIVOTS, torch.int32), f(2, 3, 3), dtypes=DOUBLES,
        vary={**LEFT, "adjoint": (False, True)},
    ),
    OpCase(aten.linalg_lu_solve.default, v(FACTORS), v(PIVOTS, torch.int32), f(2, 3, 4), dynamic="2 3 3, 2 3, 2 3 k"),
    OpCase(aten.linalg_lu_solve.default, v(FACTORS[0]), v(PIVOTS[0], torch.int32), f(4, 2, 3, 2)),
    OpCase(
        aten.linalg_solve_triangular.default, v(TRIANGLES), f(2, 3, 3), dtypes=DOUBLES,
        vary={**LEFT, "upper": (True, False), "unitriangular": (False, True)}, dynamic="2 3 3, 2 3 3",
    ),
    OpCase(aten.linalg_solve_triangular.default, v(TRIANGLES), f(4, 1, 3, 5), upper=True, dynamic="2 3 3, b 1 3 k"),
    OpCase(aten.linalg_solve_triangular.default, v(TRIANGLES), f(3, 5), upper=False),
    OpCase(aten.linalg_solve_triangular.default, f(0, 0), f(0, 5), upper=False),
    OpCase(
        aten.triangular_solve.default, f(2, 3, 2), v(TRIANGLES),
        vary={"upper": (True, False), "transpose": (False, True), "unitriangular": (False, True)},
    ),
    OpCase(aten.triangular_solve.default, f(4, 1, 3, 2), v(TRIANGLES), dtypes=DOUBLES),
)  # fmt: skip
