"""Rows for exporter/lowering/lowerings/extremes.py."""

import torch

from tests.cases.ops import ALL, BOOL, FLOATS, INTS, Draw, OpCase, f, i, v

aten = torch.ops.aten

NAN, INF = float("nan"), float("inf")
NUMBERS = (*FLOATS, *INTS)
ROWS = v(
    [[1.0, NAN, INF, NAN], [INF, 2.0, NAN, 3.0], [-INF, -INF, -1.0, -INF], [NAN, 1.0, 2.0, 3.0], [3.0, 3.0, -1.0, -1.0]]
)
"""NaN at the beginning, after and before infinity; ties."""


def pair(default: object, dim: object, *rows: tuple[Draw, dict[str, object]]) -> tuple[OpCase, ...]:
    """Rows of an op over everything and of its form along a dim."""
    keepdim = {"keepdim": (False, True)}
    return (
        OpCase(default, f(2, 3), dtypes=ALL, dynamic="n 3"),
        OpCase(default, v([1.0, NAN, INF]), dtypes=FLOATS),
        OpCase(default, f(), dtypes=ALL),
        OpCase(dim, f(2, 3, 4), -2, vary=keepdim, dtypes=ALL, dynamic="n 3 m"),
        OpCase(dim, ROWS, 1, vary=keepdim, dtypes=FLOATS),
        OpCase(dim, ROWS, 0),
        OpCase(dim, f(0, 3), 1),
        OpCase(dim, f(), -1, dtypes=(torch.float32, torch.int64)),
    )


def along(target: object) -> tuple[OpCase, ...]:
    return (
        OpCase(target, f(2, 3, 4), [0, -1], vary={"keepdim": (False, True)}, dtypes=ALL, dynamic="n 3 m"),
        OpCase(target, ROWS, [1], dtypes=FLOATS),
        OpCase(target, ROWS, vary={"keepdim": (False, True)}),
        OpCase(target, f(2, 3), [1], vary={"keepdim": (False, True)}),
        OpCase(target, f(2, 0, 3), [0]),
        OpCase(target, f(), dtypes=ALL),
    )


def place(target: object) -> tuple[OpCase, ...]:
    return (
        OpCase(target, f(2, 3, 4), 1, vary={"keepdim": (False, True)}, dtypes=NUMBERS, dynamic="n 3 m"),
        OpCase(target, ROWS, vary={"dim": (0, -1, None), "keepdim": (False, True)}, dtypes=FLOATS),
        OpCase(target, f(2, 3), vary={"keepdim": (False, True)}, dynamic="n m"),
        OpCase(target, i(5, high=2), dtypes=INTS),
        OpCase(target, f(0, 3), 1),
        OpCase(target, f(1, 0), -2, vary={"keepdim": (False, True)}),
        OpCase(target, f(), vary={"dim": (None, 0)}),
    )


CASES = (
    *pair(aten.max.default, aten.max.dim),
    *pair(aten.min.default, aten.min.dim),
    *along(aten.amax.default),
    *along(aten.amin.default),
    *place(aten.argmax.default),
    *place(aten.argmin.default),
    OpCase(aten.aminmax.default, f(2, 3), vary={"dim": (None, 0, -1), "keepdim": (False, True)}, dynamic="n m"),
    OpCase(aten.aminmax.default, ROWS, vary={"dim": (None, 1)}, dtypes=FLOATS),
    OpCase(aten.aminmax.default, f(), vary={"dim": (None, 0)}, dtypes=(*INTS, *BOOL)),
)
