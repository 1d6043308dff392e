"""Rows for exporter/lowering/lowerings/linalg_eig.py; tests/exporter/test_linalg_eig.py looks at values and vectors.

Values are compared where their order is clear: a triangle, a rotation, a triangle of complex numbers.
"""

import torch

from tests.cases.ops import OpCase, f, v

fxport = torch.ops.fxport

DOUBLES = (torch.float32, torch.float64)
TRIANGLE = [
    [[3.0, 0.0], [1.0, 0.5], [2.0, 0.0]],
    [[0.0, 0.0], [-1.0, 2.0], [0.5, 0.0]],
    [[0.0, 0.0], [0.0, 0.0], [0.5, -1.0]],
]
ROTATION = [[[0.6, 0.0], [-0.8, 0.0]], [[0.8, 0.0], [0.6, 0.0]]]

CASES = (
    OpCase(fxport.eig.default, v(TRIANGLE), True, dtypes=DOUBLES),
    OpCase(fxport.eig.default, v(ROTATION), False, dtypes=DOUBLES),
    *(
        OpCase(fxport.eig.default, f(2, 4, 4, 2), vectors, dtypes=DOUBLES, dynamic="b n n 2", compare="shape")
        for vectors in (False, True)
    ),
    OpCase(fxport.eig.default, f(1, 1, 2), True),
    OpCase(fxport.eig.default, f(0, 3, 3, 2), True),
    OpCase(fxport.eig.default, f(2, 0, 0, 2), True),
)
