"""Rows for exporter/lowering/lowerings/pad_backward.py."""

import torch

from tests.cases.ops import OpCase, f

aten = torch.ops.aten

CASES = (
    OpCase(aten.reflection_pad1d_backward.default, f(2, 3, 9), f(2, 3, 5), [3, 1], dynamic="n 3 9, n 3 5"),
    OpCase(
        aten.reflection_pad2d_backward.default, f(2, 3, 9, 8), f(2, 3, 6, 5), [1, 2, 3, 0], dynamic="n 3 9 8, n 3 6 5"
    ),
    OpCase(aten.reflection_pad3d_backward.default, f(2, 5, 6, 7), f(2, 3, 4, 5), [1, 1, 0, 2, 2, 0]),
    OpCase(aten.replication_pad1d_backward.default, f(3, 12), f(3, 5), [4, 3]),
    OpCase(
        aten.replication_pad2d_backward.default, f(2, 3, 9, 8), f(2, 3, 6, 5), [1, 2, 3, 0], dynamic="n 3 9 8, n 3 6 5"
    ),
    OpCase(aten.replication_pad3d_backward.default, f(1, 2, 5, 6, 7), f(1, 2, 3, 4, 5), [1, 1, 0, 2, 2, 0]),
)
