"""Rows for exporter/lowering/lowerings/trigonometry.py."""

import itertools
import math

import torch

from tests.cases.ops import FLOATS, OpCase, f, i, v

aten = torch.ops.aten
prims = torch.ops.prims

PAIRS = tuple(itertools.product((0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-30, -1e30), repeat=2))

ZEROS = v((0.0, -0.0, 0.0, -0.0)), v((0.0, 0.0, 2.0, math.inf))


def _inverse_of_angle(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """By which the sign of a zero is seen."""
    return 1 / aten.atan2.default(y, x)


CASES = (
    OpCase(aten.atan2.default, f(2, 3), f(3), dtypes=FLOATS, dynamic="n 3"),
    OpCase(_inverse_of_angle, *ZEROS, dtypes=FLOATS[:2]),
    OpCase(aten.atan2.default, v([y for y, _ in PAIRS]), v([x for _, x in PAIRS]), dtypes=FLOATS[:2]),
    OpCase(aten.atan2.default, i(2, 3, low=-2), i(3, low=-2)),
    OpCase(aten.angle.default, v((0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan)), dtypes=FLOATS),
    OpCase(aten.angle.default, f(2, 3), dtypes=(torch.int64, torch.bool), dynamic="n 3"),
    OpCase(prims.atan2.default, f(2, 3), f(2, 3)),
)
