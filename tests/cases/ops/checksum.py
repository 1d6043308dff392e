"""Rows for exporter/lowerings/checksum.py."""

import torch

from tests.cases.ops import BOOL, INTS, OpCase, f

aten = torch.ops.aten

KEPT = {"keepdim": (False, True)}

CASES = (
    OpCase(aten.hash_tensor.default, f(3, 5), dtypes=(*INTS, *BOOL), opsets=(26,)),
    OpCase(aten.hash_tensor.default, f(3, 5), [1], vary=KEPT, dtypes=(torch.int64,)),
    OpCase(aten.hash_tensor.default, f(3, 5, 2), [0, -1], dtypes=(torch.int32,)),
    OpCase(aten.hash_tensor.default, f(), dtypes=(torch.int64,)),
)
