"""Rows for exporter/lowering/lowerings/linalg_complex_jacobi.py; tests/exporter/test_linalg.py looks at the vectors."""

import torch

from tests.cases.ops import OpCase, f, v

fxport = torch.ops.fxport

DOUBLES = (torch.float32, torch.float64)
HERMITIAN = v([[[2.0, 0.0], [0.5, 1.0]], [[0.5, -1.0], [-1.0, 0.0]]])

CASES = (
    OpCase(fxport.eigh.default, HERMITIAN, results=1, dtypes=DOUBLES),
    OpCase(fxport.eigh.default, f(0, 0, 2), results=1),
    *(
        OpCase(fxport.svd.default, f(2, m, n, 2), full, dtypes=DOUBLES, dynamic="b m n 2", compare="shape")
        for m, n in ((4, 3), (3, 4))
        for full in (False, True)
    ),
    OpCase(fxport.svd.default, f(3, 0, 2), True),
)
