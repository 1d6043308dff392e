"""Rows for exporter/lowering/lowerings/create.py."""

import torch

from tests.cases.ops import ALL, BOOL, INTS, NUMBERS, OpCase, f

aten, prims = torch.ops.aten, torch.ops.prims

REAL = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SHAPE = "shape"  # what is left uninitialized has no values to compare

CASES = (
    OpCase(aten.zeros.default, [2, 3], vary={"dtype": (None, *ALL)}),
    OpCase(aten.zeros.default, [20, 30], vary={"dtype": (None, *ALL)}),
    OpCase(aten.zeros.default, vary={"size": ([], [0], [3, 0])}),
    OpCase(aten.zeros_like.default, f(2, 3), dtypes=ALL, dynamic="n 3"),
    OpCase(aten.zeros_like.default, f(2, 3), dtype=torch.int32, dynamic="n 3"),
    OpCase(aten.new_zeros.default, f(2, 3), [4, 5], dtypes=ALL),
    OpCase(aten.empty.memory_format, [2, 3], compare=SHAPE),
    OpCase(aten.empty_like.default, f(2, 3), compare=SHAPE, dynamic="n 3"),
    OpCase(aten.empty_permuted.default, [2, 3], [1, 0], compare=SHAPE),
    OpCase(aten.empty_strided.default, [2, 3], [1, 2], compare=SHAPE),
    OpCase(aten.new_empty.default, f(2, 3), [4, 5], compare=SHAPE),
    OpCase(aten.new_empty_strided.default, f(2, 3), [4, 5], [5, 1], compare=SHAPE),
    OpCase(aten.ones.default, [2, 3], vary={"dtype": (None, *ALL)}),
    OpCase(aten.ones_like.default, f(2, 3), dtypes=ALL, dynamic="n 3"),
    OpCase(aten.new_ones.default, f(2, 3), [4], dtypes=ALL),
    OpCase(aten.full.default, [2, 3], vary={"fill_value": (1, -2.5, True, float("inf"), float("nan"))}),
    OpCase(aten.full.default, [20, 3], 7, vary={"dtype": (None, *ALL)}),
    OpCase(aten.full.default, [], -1.5),
    OpCase(aten.full_like.default, f(2, 3), vary={"fill_value": (1, 2.5)}, dtypes=ALL, dynamic="n m"),
    OpCase(aten.new_full.default, f(2, 3), [4], vary={"fill_value": (1, 2.5)}, dtypes=ALL),
    OpCase(aten.fill.Scalar, f(2, 3), 1.5, dtypes=ALL, dynamic="n 3"),
    OpCase(aten.fill.Tensor, f(2, 3), f(), dtypes=NUMBERS, dynamic="n 3"),
    OpCase(aten.arange.default, vary={"end": (5, 0, 4.5), "dtype": (None, *REAL, *INTS)}),
    OpCase(aten.arange.start, 1, vary={"end": (5, 1, 4.5), "dtype": (None, *REAL, torch.int32)}),
    OpCase(aten.arange.start_step, 1, 8, vary={"step": (1, 3, 0.7), "dtype": (None, *REAL)}),
    OpCase(aten.arange.start_step, 5, -4, -2, vary={"dtype": (None, torch.float32, torch.int16)}),
    OpCase(aten.arange.start_step, 0.1, 100.0, 0.1),  # no sum of steps
    OpCase(prims.iota.default, 5, start=2, step=3, dtype=torch.int64, device="cpu", requires_grad=False),
    OpCase(aten.eye.default, 3, vary={"dtype": (None, *REAL, torch.int64, torch.bool)}),
    OpCase(aten.eye.m, 3, vary={"m": (2, 5, 0)}),
    OpCase(aten.tril.default, f(3, 4), vary={"diagonal": (0, 1, -1, 9, -9)}, dynamic="n m"),
    OpCase(aten.triu.default, f(2, 3, 4), vary={"diagonal": (0, 1, -1, 9, -9)}, dynamic="n 3 m"),
    OpCase(aten.tril.default, f(4, 3), dtypes=(torch.float64, torch.int64, torch.int32, *BOOL)),
    OpCase(aten.triu.default, f(0, 3)),
    OpCase(aten.tril_indices.default, 3, vary={"col": (2, 5, 0), "offset": (0, 1, -1)}, dtype=torch.int32),
    OpCase(aten.triu_indices.default, 3, vary={"col": (2, 5, 0), "offset": (0, 1, -1)}),
)
