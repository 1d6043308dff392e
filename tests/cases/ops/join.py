"""Rows for exporter/lowering/lowerings/join.py."""

import torch

from tests.cases.ops import ALL, F32, OpCase, f, i

aten, prims = torch.ops.aten, torch.ops.prims

CASES = (
    OpCase(aten.cat.default, [f(2, 3), f(4, 3)], dtypes=ALL, dynamic="n 3, m 3"),
    OpCase(aten.cat.default, [f(2, 3), f(2, 1), f(2, 0)], -1, dynamic="n 3, n 1, n 0"),
    OpCase(aten.cat.default, [f(2, 3), i(2, 3)], 1),
    OpCase(aten.cat.default, [f(0), f(2, 3), f(0)], 1),  # the old form: (0,) beside any rank
    OpCase(aten.cat.default, [f(0), f(0)]),
    OpCase(aten.cat.default, [f(2, 3)]),
    OpCase(aten.concat.default, [f(2, 3), f(4, 3)]),
    OpCase(aten.concatenate.default, [f(2, 3), f(4, 3)]),
    OpCase(prims.cat.default, [f(2, 3), f(4, 3)], 0),
    OpCase(aten.stack.default, [f(2, 3), f(2, 3)], vary={"dim": (0, 1, -1)}, dtypes=ALL, dynamic="n 3, n 3"),
    OpCase(aten.stack.default, [f(), f()]),
    OpCase(aten.stack.default, [f(2)]),
    OpCase(aten.stack.default, [f(2), i(2)]),
    OpCase(
        aten.repeat.default, f(2, 3), vary={"repeats": ([2, 3], [4, 1, 2], [1, 1], [0, 2], [1, 1, 1])}, dynamic="n m"
    ),
    OpCase(aten.repeat.default, f(1, 3), [4, 1], dtypes=ALL, dynamic="1 n"),
    OpCase(aten.repeat.default, f(2, 3), [1, 2], dtypes=(torch.float64, torch.int64, torch.uint8, torch.bool)),
    OpCase(aten.repeat.default, f(), [2, 3]),
    OpCase(aten.repeat.default, f(0, 3), [2, 3]),
    OpCase(aten.tile.default, f(2, 3), vary={"dims": ([2], [2, 1], [2, 1, 3], [])}, dynamic="n 3"),
    OpCase(aten.flip.default, f(2, 3, 4), vary={"dims": ([0], [-1, 0], [], [1, 2])}, dtypes=ALL, dynamic="n 3 m"),
    OpCase(aten.flip.default, f(), [0]),
    OpCase(aten.flip.default, f(0, 3), [0, 1]),
    OpCase(prims.rev.default, f(2, 3), [1]),
    OpCase(aten.roll.default, f(5, 3), vary={"shifts": ([1], [-2], [0], [12], [-13])}, dims=[0], dynamic="n 3"),
    OpCase(aten.roll.default, f(5, 3), [2, -1], [0, 1], dtypes=ALL, dynamic="n m"),
    OpCase(aten.roll.default, f(5, 3), [4], dynamic="n 3"),
    OpCase(aten.roll.default, f(5, 3), [1, 1], [0, 0]),
    OpCase(aten.roll.default, f(0, 3), [1], [0]),
    OpCase(aten.roll.default, f(), [1]),
    OpCase(aten.roll.default, f(1), [3], [0], dtypes=F32),
)
