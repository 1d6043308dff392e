"""Rows for exporter/lowering/lowerings/search.py."""

import torch
from torch import Tensor

from tests.cases.ops import FLOATS, INTS, OpCase, f, i, v

aten = torch.ops.aten

NAN, INF = float("nan"), float("inf")
NUMBERS = (*FLOATS, *INTS)
STEPS = v([1, 3, 3, 5, 9])
LONG = v(torch.arange(0, 900, 3).tolist())
SIDES = {"right": (False, True)}


def _searched(sequence: Tensor, x: Tensor, right: bool = False) -> Tensor:
    """Of a sequence that is put in order first, since a drawn one is in none."""
    return aten.searchsorted.Tensor(sequence.sort().values, x, right=right)


def _positive(sequence: Tensor, x: Tensor, right: bool = False) -> Tensor:
    """Of those elements of the sequence that are positive, be there any or none."""
    return aten.searchsorted.Tensor(sequence[sequence > 0], x, right=right)


def _positive_columns(sequence: Tensor, x: Tensor) -> Tensor:
    return aten.searchsorted.Tensor(sequence[sequence > 0].expand(x.shape[0], -1), x)


CASES = (
    OpCase(aten.searchsorted.Tensor, STEPS, i(2, 3, high=10), vary=SIDES),
    OpCase(
        aten.searchsorted.Tensor,
        STEPS,
        v([[0, 3], [9, 10]]),
        vary={**SIDES, "out_int32": (False, True)},
        dtypes=NUMBERS,
    ),
    OpCase(aten.searchsorted.Tensor, STEPS, v([3, 4]), vary={"side": ("left", "right")}),
    OpCase(aten.searchsorted.Tensor, v([-INF, 1.0, 2.0, INF]), v([NAN, INF, -INF, 2.0]), vary=SIDES, dtypes=FLOATS),
    OpCase(aten.searchsorted.Tensor, v([[1, 3, 5], [2, 4, 6]]), v([[3, 4, 9, 0], [3, 4, 9, 0]]), vary=SIDES),
    OpCase(aten.searchsorted.Tensor, v([5, 1, 3]), v([[2, 3]]), sorter=v([1, 2, 0], torch.int64), vary=SIDES),
    OpCase(aten.searchsorted.Tensor, STEPS, v(3), vary=SIDES),
    OpCase(aten.searchsorted.Tensor, v([]), v([3.0]), vary=SIDES),
    OpCase(aten.searchsorted.Tensor, LONG, i(3, 4, low=-5, high=1000), vary=SIDES),
    OpCase(
        aten.searchsorted.Tensor,
        v([LONG.values, LONG.values]),
        i(2, 5, low=-5, high=1000),
        vary=SIDES,
        dtypes=(torch.int64,),
    ),
    OpCase(aten.searchsorted.Tensor, v(LONG.values, torch.int64), i(3, 4, high=1000), vary=SIDES),
    OpCase(aten.searchsorted.Tensor, LONG, v(500)),
    OpCase(_searched, f(5), f(2, 3), vary=SIDES, dynamic="n, 2 m"),
    OpCase(_searched, f(2, 3), f(2, 4), vary=SIDES, dynamic="n m, n k"),
    OpCase(_searched, f(5), f(), dynamic="n"),
    OpCase(_positive, v([1.0, 2.0]), f(2, 3), vary=SIDES),
    OpCase(_positive, v([-1.0, 0.0]), f(2, 3), vary=SIDES),
    OpCase(_positive_columns, v([1.0, 2.0]), f(2, 3)),
    OpCase(_positive_columns, v([-1.0, 0.0]), f(2, 3)),
    OpCase(aten.searchsorted.Scalar, STEPS, vary={"self": (3, 2.5), **SIDES}),
    OpCase(aten.bucketize.Tensor, f(2, 3, low=0.0, high=10.0), STEPS, vary=SIDES, dtypes=NUMBERS),
    OpCase(aten.bucketize.Tensor, f(2, 3), v([-1.0, 0.0, 1.0]), out_int32=True),
    OpCase(aten.bucketize.Scalar, 3, STEPS, vary=SIDES),
)
