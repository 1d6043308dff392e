"""Rows for exporter/lowering/lowerings/integer.py."""

import torch

from tests.cases.ops import INTS, OpCase, f, i, v

aten = torch.ops.aten

BOTH = (aten.gcd.default, aten.lcm.default)
LARGE = v((0, 0, 12, -12, 7, 2**40, 12200160415121876738 - 2**64 + 2**63, 1))
OTHERS = v((0, 5, 18, 18, -21, 2**33, 7540113804746346429, 0))
SMALLEST = v((-(2**63),) * 3)

CASES = (
    *(OpCase(op, f(2, 3), f(3), dtypes=INTS, dynamic="n 3") for op in BOTH),
    *(OpCase(op, i(0, 3), i(3)) for op in BOTH),
    OpCase(aten.gcd.default, v((1, 0, -(2**63))), SMALLEST, dtypes=(torch.int64,)),
    *(OpCase(op, LARGE, OTHERS, dtypes=(torch.int64,)) for op in BOTH),
)
