"""Rows for exporter/lowering/lowerings/linalg_complex.py."""

import torch

from tests.cases.ops import OpCase, f

fxport = torch.ops.fxport

DOUBLES = (torch.float32, torch.float64)

CASES = (
    OpCase(fxport.lu_factor.default, f(2, 4, 4, 2), dtypes=DOUBLES, dynamic="b n n 2"),
    OpCase(fxport.lu_factor.default, f(5, 3, 2), dynamic="m 3 2"),
    OpCase(fxport.lu_factor.default, f(0, 3, 3, 2)),
    OpCase(fxport.geqrf.default, f(2, 4, 3, 2), dtypes=DOUBLES, dynamic="b m 3 2"),
    OpCase(fxport.geqrf.default, f(3, 5, 2), dynamic="m n 2"),
    OpCase(fxport.unmqr.default, f(4, 3, 2), f(3, 2), f(4, 2, 2), False, dtypes=DOUBLES, dynamic="4 3 2, 3 2, 4 n 2"),
    OpCase(fxport.unmqr.default, f(2, 4, 3, 2), f(2, 3, 2), f(2, 4, 2, 2), True, dynamic="b, b, b"),
)
