"""Rows for exporter/lowering/lowerings/rounding.py."""

import math

import torch

from tests.cases.ops import FLOATS, INTS, OpCase, b, f, v

aten = torch.ops.aten
prims = torch.ops.prims

SMALL = FLOATS
EDGES = v((0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.3, -0.3, 7.0, -7.0, 1e20, math.inf, -math.inf, math.nan))
ROUNDINGS = (aten.floor, aten.ceil, aten.round, aten.trunc)


def _inverse(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """By which the sign of a zero is seen."""
    return 1 / aten.copysign.Tensor(x, other)


def _inverse_of_rest(x: torch.Tensor) -> torch.Tensor:
    return 1 / aten.frac.default(x)


CASES = (
    *(OpCase(op.default, EDGES, dtypes=(torch.float32, torch.float64)) for op in ROUNDINGS),
    *(OpCase(op.default, f(2, 3, low=-9, high=9), dtypes=(*SMALL, *INTS), dynamic="n 3") for op in ROUNDINGS),
    OpCase(prims.floor.default, EDGES),
    OpCase(prims.ceil.default, EDGES),
    OpCase(prims.round.default, EDGES),
    OpCase(prims.trunc.default, EDGES),
    OpCase(
        aten.round.decimals, f(2, 3, low=-99, high=99), vary={"decimals": (0, 1, 3, -1)}, dtypes=SMALL, dynamic="n 3"
    ),
    OpCase(aten.frac.default, EDGES, dtypes=(torch.float32, torch.float64)),
    OpCase(_inverse_of_rest, EDGES),
    OpCase(aten.frac.default, f(2, 3, low=-9, high=9), dtypes=SMALL, dynamic="n 3"),
    OpCase(aten.sign.default, EDGES),
    OpCase(aten.sign.default, v([2**31, 2**32 - 1, 2**32, -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63)], torch.int64)),
    OpCase(aten.sign.default, f(2, 3), dtypes=(*SMALL, *INTS, torch.bool), dynamic="n 3"),
    OpCase(aten.sgn.default, f(2, 3), dtypes=(*SMALL, *INTS, torch.bool)),
    OpCase(prims.sign.default, f(2, 3)),
    OpCase(aten.signbit.default, EDGES),
    OpCase(aten.signbit.default, f(2, 3), dtypes=(*SMALL, *INTS, torch.bool), dynamic="n 3"),
    OpCase(aten.copysign.Tensor, f(2, 3), f(3), dtypes=(*SMALL, *INTS, torch.bool), dynamic="n 3"),
    OpCase(aten.copysign.Tensor, v((1.0, -1.0, 0.0, math.inf)), v((-0.0, 0.0, -2.0, -math.inf))),
    OpCase(aten.copysign.Tensor, f(2, 3), b(3)),
    OpCase(_inverse, v((0, 0, 1, -1)), v((-3, 3, -2, 0)), dtypes=(torch.float32, torch.int32)),
    OpCase(aten.copysign.Scalar, f(2, 3), -0.0, dtypes=(*SMALL, torch.int64)),
)
