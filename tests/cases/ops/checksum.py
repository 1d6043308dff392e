"""Rows for exporter/lowering/lowerings/checksum.py."""

from math import inf, nan

import torch

from tests.cases.ops import BOOL, FLOATS, INTS, OpCase, f, v

aten = torch.ops.aten

KEPT = {"keepdim": (False, True)}

CASES = (
    OpCase(aten.hash_tensor.default, f(3, 5), dtypes=(*INTS, *BOOL), opsets=(26,)),
    OpCase(aten.hash_tensor.default, f(3, 5), [1], vary=KEPT, dtypes=(torch.int64,)),
    OpCase(aten.hash_tensor.default, f(3, 5, 2), [0, -1], dtypes=(torch.int32,)),
    OpCase(aten.hash_tensor.default, f(), dtypes=(torch.int64,)),
    OpCase(aten.hash_tensor.default, f(3, 5), [1], dtypes=FLOATS, opsets=(18, 26)),
    *(
        OpCase(aten.hash_tensor.default, v([number], torch.float64), opsets=(18, 26))
        for number in (0.0, -0.0, 1.0, -2.0, 5e-324, -2.5e-310, 2.2250738585072014e-308, 1.7e308, inf, -inf, nan)
    ),
)
