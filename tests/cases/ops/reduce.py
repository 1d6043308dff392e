"""Rows for exporter/lowering/lowerings/reduce.py."""

import torch

from tests.cases.ops import ALL, BOOL, FLOATS, INTS, OpCase, b, f, i, v

aten = torch.ops.aten

NAN, INF = float("nan"), float("inf")
NUMBERS = (*FLOATS, *INTS)
TO = (None, torch.float64, torch.int64, torch.int32)
LARGE = v([[2**53, 1, 3], [2**62, 2**62, 2**62 + 5]], torch.int64)
"""What a double cannot hold, and what wraps."""

CASES = (
    OpCase(aten.sum.default, f(2, 3), dtypes=ALL, dynamic="n 3"),
    OpCase(aten.sum.default, f(2, 3), vary={"dtype": (*TO, torch.float16, torch.int8, torch.bool)}),
    OpCase(aten.sum.default, f()),
    OpCase(aten.sum.default, f(0, 3)),
    OpCase(aten.sum.dim_IntList, f(2, 3, 4), [0, -1], vary={"keepdim": (False, True)}, dtypes=ALL, dynamic="n 3 m"),
    OpCase(aten.sum.dim_IntList, f(2, 3, 4), [1], vary={"dtype": TO}),
    OpCase(aten.sum.dim_IntList, f(2, 3), [], vary={"keepdim": (False, True)}),
    OpCase(aten.sum.dim_IntList, f(2, 3), None, vary={"keepdim": (False, True)}),
    OpCase(aten.sum.dim_IntList, f(2, 0, 3), [1], dtypes=NUMBERS),
    OpCase(aten.sum.dim_IntList, f(0, 3), [-1]),
    OpCase(aten.sum.dim_IntList, f(), [0], True, dtypes=ALL),
    OpCase(aten.sum.dim_IntList, i(2, 3, low=2**30, high=2**31 - 1, dtype=torch.int32), [1], dtype=torch.int32),
    OpCase(aten.sum.dim_IntList, LARGE, [1], vary={"keepdim": (False, True)}),
    OpCase(aten.sum.default, LARGE, vary={"dtype": (None, torch.int32, torch.float64)}),
    OpCase(aten.prod.dim_int, LARGE, 1, vary={"keepdim": (False, True)}),
    OpCase(aten.prod.default, LARGE),
    OpCase(aten.mean.default, f(2, 3), dtypes=FLOATS, dynamic="n m"),
    OpCase(aten.mean.default, i(2, 3), dtype=torch.float32),
    OpCase(aten.mean.default, f(0, 3), dtypes=FLOATS),
    OpCase(aten.mean.default, f()),
    OpCase(aten.mean.dim, f(2, 3, 4), [0, -1], vary={"keepdim": (False, True)}, dtypes=FLOATS, dynamic="n 3 m"),
    OpCase(aten.mean.dim, f(2, 3), [1], vary={"dtype": (None, torch.float64, torch.float16)}),
    OpCase(aten.mean.dim, f(2, 3), None),
    OpCase(aten.mean.dim, f(2, 3), [], True),
    OpCase(aten.mean.dim, f(2, 0, 3), [1], True),
    OpCase(aten.mean.dim, f(), [0]),
    OpCase(aten.prod.default, f(2, 3), dtypes=ALL, dynamic="n 3"),
    OpCase(aten.prod.default, f(), vary={"dtype": TO}),
    OpCase(aten.prod.default, f(0, 3)),
    OpCase(aten.prod.dim_int, f(2, 3, 4), -2, vary={"keepdim": (False, True)}, dtypes=ALL, dynamic="n 3 m"),
    OpCase(aten.prod.dim_int, f(2, 3), 1, vary={"dtype": TO}),
    OpCase(aten.prod.dim_int, f(2, 0), 1),
    OpCase(aten.prod.dim_int, b(2, 3), 1),
    OpCase(aten.any.default, f(2, 3), dtypes=ALL, dynamic="n 3"),
    OpCase(aten.any.default, v([[0.0, NAN], [0.0, 0.0]])),
    OpCase(aten.any.default, f(0, 3), dtypes=(*BOOL, torch.float32)),
    OpCase(aten.any.default, f(), dtypes=ALL),
    OpCase(aten.any.dim, v([[0, 1, 0], [0, 0, 0]]), -1, vary={"keepdim": (False, True)}, dtypes=ALL),
    OpCase(aten.any.dim, b(2, 3, 4), 1, dynamic="n m 4"),
    OpCase(aten.any.dim, b(2, 0), 1),
    OpCase(aten.any.dim, b(), 0),
    OpCase(aten.any.dims, b(2, 3, 4), [0, -1], vary={"keepdim": (False, True)}, dynamic="n 3 m"),
    OpCase(aten.any.dims, b(2, 3), vary={"dim": (None, [], [1])}),
    OpCase(aten.all.default, f(2, 3), dtypes=ALL, dynamic="n 3"),
    OpCase(aten.all.default, v([[2, 3], [1, 4]]), dtypes=ALL),
    OpCase(aten.all.default, f(0, 3), dtypes=(*BOOL, torch.float32)),
    OpCase(aten.all.default, f(), dtypes=ALL),
    OpCase(aten.all.dim, v([[1, 1, 0], [1, 1, 1]]), -1, vary={"keepdim": (False, True)}, dtypes=ALL),
    OpCase(aten.all.dim, b(2, 3, 4), 1, dynamic="n m 4"),
    OpCase(aten.all.dim, b(2, 0), 1),
    OpCase(aten.all.dims, b(2, 3, 4), [0, -1], vary={"keepdim": (False, True)}, dynamic="n 3 m"),
    OpCase(aten.all.dims, b(2, 3), vary={"dim": (None, [], [1])}),
)
