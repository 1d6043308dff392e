"""The exponential of matrices."""

import torch

from tests.cases.ops import OpCase, f, v

aten = torch.ops.aten

DOUBLES = (torch.float32, torch.float64)
SPECIAL = [[[0.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]], [[0.0, 7.0], [-7.0, 0.0]], [[-9.0, 0.0], [0.0, 3.0]]]
TOL = {"tol": {torch.float32: (2e-5, 1e-5)}, "why": "PyTorch's own error, which its squarings double each time"}

CASES = (
    OpCase(aten.linalg_matrix_exp.default, f(3, 4, 4), dtypes=DOUBLES, dynamic="b 4 4", **TOL),
    OpCase(aten.linalg_matrix_exp.default, f(5, 5, low=-3.0, high=3.0), dtypes=DOUBLES, dynamic="n n", **TOL),
    OpCase(aten.linalg_matrix_exp.default, v(SPECIAL), dtypes=DOUBLES, **TOL),
    OpCase(aten.linalg_matrix_exp.default, f(1, 1)),
    OpCase(aten.linalg_matrix_exp.default, f(2, 0, 0)),
)
