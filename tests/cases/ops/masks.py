"""Rows for exporter/lowering/lowerings/masks.py."""

import torch

from tests.cases.ops import ALL, OpCase, b, f, v

aten = torch.ops.aten
BITS = v([[1, 0, 2], [0, 0, 3]])

CASES = (
    OpCase(aten.nonzero.default, BITS, dtypes=ALL),
    OpCase(aten.nonzero.default, b(4, 3), dynamic="n m"),
    OpCase(aten.nonzero.default, v([0.0, float("nan"), -0.0, 1e-40])),
    OpCase(aten.nonzero.default, v(3)),
    OpCase(aten.nonzero.default, v(0)),
    OpCase(aten.nonzero.default, f(0, 3)),
    OpCase(aten.argwhere.default, BITS),
    OpCase(aten.nonzero_static.default, BITS, vary={"size": (2, 3, 5, 0), "fill_value": (-1, 7)}),
    OpCase(aten.nonzero_static.default, b(4, 3), size=6, dynamic="n 3"),
    OpCase(aten.where.default, BITS),
    OpCase(aten.where.default, b(4, 3), dynamic="n 3"),
    OpCase(aten.nonzero_numpy.default, BITS),
    OpCase(aten.masked_select.default, f(2, 3), b(2, 3), dtypes=ALL, dynamic="n m, n m"),
    OpCase(aten.masked_select.default, f(2, 3), b(3), dynamic="n m, m"),
    OpCase(aten.masked_select.default, f(3), b(2, 1), dynamic="m, n 1"),
    OpCase(aten.masked_select.default, f(), b()),
    OpCase(aten.masked_scatter.default, f(2, 3), b(2, 3), f(7), dtypes=ALL, dynamic="n 3, n 3, m"),
    OpCase(aten.masked_scatter.default, f(2, 3), b(3), f(2, 4), dynamic="n 3, 3, n 4"),
    OpCase(aten.masked_scatter.default, f(2, 3, 4), b(2, 3, 1), f(25, 4), dynamic="n m 4, n m 1, 25 4"),
    OpCase(aten.masked_scatter.default, f(2, 3, 4), b(2, 3, 1), f(3, 8)),
    OpCase(aten.masked_scatter.default, f(2, 3), b(1, 1), f(6)),
    OpCase(aten.masked_scatter.default, f(2, 3), b(), f(6)),
    OpCase(aten.masked_scatter.default, f(), b(), f(1)),
    OpCase(aten.masked_scatter.default, f(0, 2, 1), b(1, 2, 1), f(1)),
    OpCase(aten.masked_scatter.default, f(3), v([False, False, False], torch.bool), f(0)),
)
