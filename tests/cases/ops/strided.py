"""Rows for exporter/lowering/lowerings/strided.py."""

import torch

from tests.cases.ops import ALL, OpCase, f

aten, prims = torch.ops.aten, torch.ops.prims
AXES = {"offset": (0, 1, -1, 9, -9)}

CASES = (
    OpCase(aten.unfold.default, f(3, 7), 1, vary={"size": (1, 3, 7), "step": (1, 2, 3)}, dtypes=ALL, dynamic="n 7"),
    OpCase(aten.unfold.default, f(7, 3), 0, vary={"size": (2, 3), "step": (2, 3)}, dynamic="n m"),
    OpCase(aten.unfold.default, f(2, 8, 3), -2, 4, 4, dynamic="n m 3"),
    OpCase(aten.unfold.default, f(8), 0, 0, 1),
    OpCase(aten.unfold.default, f(), 0, vary={"size": (0, 1)}, step=1),
    OpCase(aten.unfold_copy.default, f(3, 7), 1, 3, 2),
    OpCase(aten.diagonal.default, f(3, 4), vary=AXES, dtypes=ALL, dynamic="n m"),
    OpCase(aten.diagonal.default, f(4, 3), vary=AXES),
    OpCase(aten.diagonal.default, f(2, 3, 4), 1, vary={"dim1": (0, -1), "dim2": (1, -2)}),
    OpCase(aten.diagonal.default, f(2, 3, 3), 0, 1, 2, dynamic="n m m"),
    OpCase(aten.diagonal.default, f(2, 3, 3), -1, -1, -2, dynamic="n m m"),
    OpCase(aten.diagonal_copy.default, f(3, 4)),
    OpCase(aten.diagonal_scatter.default, f(3, 4), f(3), dtypes=ALL),
    OpCase(aten.diagonal_scatter.default, f(3, 3), f(2), vary={"offset": (1, -1)}, dynamic="3 3"),
    OpCase(aten.diagonal_scatter.default, f(3, 3), f(3), dynamic="n n, n"),
    OpCase(aten.diagonal_scatter.default, f(2, 3, 4), f(4, 1), 1, 1, 0),
    OpCase(aten.diagonal_scatter.default, f(2, 3, 3), f(2, 3), 0, 1, -1, dynamic="n 3 3, n 3"),
    OpCase(aten.diagonal_scatter.default, f(3, 4), f(0), 9),
    OpCase(aten.as_strided.default, f(4, 5), [3, 2], [1, 7], dtypes=ALL),
    OpCase(aten.as_strided.default, f(4, 5), [2, 3], [6, 2], vary={"storage_offset": (None, 2)}),
    OpCase(aten.as_strided.default, f(4, 5), [2, 3], [3, 1], 4),
    OpCase(aten.as_strided.default, f(4, 5), [2, 3], [0, 0]),
    OpCase(aten.as_strided.default, f(4, 5), [], [], 7),
    OpCase(aten.as_strided.default, f(4, 5), [3, 0], [1, 1]),
    OpCase(aten.as_strided.default, f(), [2], [0]),
    OpCase(aten.as_strided_copy.default, f(4, 5), [3, 2], [1, 7]),
    OpCase(aten.as_strided_scatter.default, f(4, 5), f(3, 2), [3, 2], [1, 7], 1, dtypes=ALL),
    OpCase(aten.as_strided_scatter.default, f(4, 5), f(0), [0], [1]),
    OpCase(prims.as_strided_scatter.default, f(4, 5), f(3, 2), [3, 2], [1, 7], 1),
    OpCase(aten.resize.default, f(4, 5), vary={"size": ([2, 3], [20], [5, 4])}),
    OpCase(aten.resize.default, f(4, 5), [5, 5], compare="shape"),
)
