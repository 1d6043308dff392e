"""Rows for exporter/lowering/lowerings/pad.py."""

import torch

from tests.cases.ops import ALL, OpCase, f

aten = torch.ops.aten
WIDE = (torch.float32, torch.float64, torch.int64, torch.int32)
FLOATS = (torch.float32, torch.float64)

CASES = (
    OpCase(aten.constant_pad_nd.default, f(2, 3, 4), [1, 2], vary={"value": (0, 1.5, float("-inf"))}, dynamic="n 3 m"),
    OpCase(aten.constant_pad_nd.default, f(2, 3, 4), [1, 2, 0, 3], 2, dtypes=ALL, dynamic="n m 4"),
    OpCase(
        aten.constant_pad_nd.default,
        f(2, 3, 4),
        vary={"pad": ([-1, 2], [1, -2], [-1, -1], [0, 0], [], [0, 0, 0, 0, 1, 0])},
    ),
    OpCase(aten.constant_pad_nd.default, f(2, 3, 4), [-1, 1, 1, -1], 3, dynamic="n m k"),
    OpCase(aten.constant_pad_nd.default, f(0, 3), [0, 0, 2, 1], 1),
    OpCase(aten.constant_pad_nd.default, f(2, 3), [-1, -2]),
    OpCase(aten.pad.default, f(2, 3, 4), [1, 2, 0, 1], vary={"value": (None, 1.5)}, dynamic="n 3 m"),
    OpCase(
        aten.pad.default,
        f(2, 3, 6),
        vary={"mode": ("reflect", "replicate", "circular"), "pad": ([1, 2], [0, 3], [2, 0])},
        dtypes=FLOATS,
        dynamic="n 3 m",
    ),
    OpCase(
        aten.pad.default,
        f(2, 3, 5, 6),
        vary={"mode": ("reflect", "replicate", "circular"), "pad": ([1, 2, 3, 0], [2, 2, 1, 1])},
        dynamic="n 3 h w",
    ),
    OpCase(
        aten.pad.default,
        f(2, 3, 4, 5, 6),
        [1, 2, 3, 0, 1, 1],
        vary={"mode": ("reflect", "replicate", "circular")},
        dynamic="n 3 d h w",
    ),
    OpCase(aten.pad.default, f(3, 6), [1, 2], vary={"mode": ("reflect", "replicate", "circular")}),
    OpCase(aten.reflection_pad1d.default, f(2, 3, 6), vary={"padding": ([2, 5], [0, 1])}, dtypes=WIDE, dynamic="n 3 m"),
    OpCase(aten.reflection_pad1d.default, f(3, 6), [3, -2]),  # what is cut off is reflected before
    OpCase(aten.reflection_pad2d.default, f(2, 3, 5, 6), [1, 2, 3, 0], dtypes=FLOATS, dynamic="n 3 h w"),
    OpCase(aten.reflection_pad3d.default, f(2, 3, 4, 5, 6), [1, 2, 3, 0, 1, 1], dynamic="n 3 d h w"),
    OpCase(aten.replication_pad1d.default, f(2, 3, 4), vary={"padding": ([7, 2], [-1, 3])}, dynamic="n 3 m"),
    OpCase(aten.replication_pad1d.default, f(2, 3, 4), [-2, -1]),
    OpCase(aten.replication_pad2d.default, f(2, 3, 5, 6), [1, 2, 3, 0], dtypes=FLOATS, dynamic="n 3 h w"),
    OpCase(aten.replication_pad3d.default, f(2, 3, 4, 5, 6), [1, 2, 3, -1, 1, 1], dynamic="n 3 d h w"),
    OpCase(
        aten._pad_circular.default, f(2, 3, 6), vary={"pad": ([6, 2], [-1, 3], [0, 0])}, dtypes=WIDE, dynamic="n 3 m"
    ),
    OpCase(aten._pad_circular.default, f(2, 3, 5, 6), [1, 2, 0, 3]),
)
