"""Rows for exporter/lowering/lowerings/division.py."""

import math

import torch

from tests.cases.ops import FLOATS, INTS, OpCase, b, f, i, v

aten = torch.ops.aten
prims = torch.ops.prims

SMALL = FLOATS
SIGNED = v((7, -7, 7, -7, 6, -6, 0, 127, -128))
DIVISORS = v((3, 3, -3, -3, 3, -3, 5, -128, 127))
LIMIT = 2**63
LARGE = v((LIMIT - 1, -LIMIT, 1 - LIMIT, LIMIT - 1, -LIMIT, LIMIT - 1, -LIMIT, -7, 7), torch.int64)
LARGE_DIVISORS = v((2, 3, -1, LIMIT - 1, LIMIT - 1, -LIMIT, -7, LIMIT - 1, -LIMIT), torch.int64)
EDGES = v((1.0, -1.0, 0.0, -0.0, math.inf, 1.0, -1.0, math.nan, 2.5, -0.5, 1e30, 3.0, -3.0, 5.0))
EDGE_DIVISORS = v((0.1, 0.1, 3.0, 3.0, 2.0, math.inf, math.inf, 2.0, 0.0, 0.0, 7.0, -math.inf, -2.0, -0.3))
MODES = {"rounding_mode": ("floor", "trunc", None)}


def _ratio(x: torch.Tensor) -> torch.Tensor:
    return torch.div(x.shape[0], x.shape[1]) * x


CASES = (
    OpCase(_ratio, f(2, 3), dtypes=FLOATS[:2], dynamic="n m"),
    OpCase(aten.div.Tensor, f(2, 3), f(3), dtypes=SMALL, dynamic="n 3"),
    OpCase(aten.div.Tensor, i(2, 3), i(3, low=1)),
    OpCase(aten.div.Tensor, b(2, 3), i(3, low=1)),
    OpCase(aten.div.Tensor, EDGES, EDGE_DIVISORS),
    OpCase(aten.div.Scalar, f(2, 3), 3, dtypes=SMALL),
    OpCase(aten.div.Scalar, i(2, 3), 3),
    OpCase(prims.div.default, f(2, 3), f(2, 3)),
    OpCase(prims.div.default, SIGNED, DIVISORS, dtypes=(torch.int64,)),
    OpCase(aten.div.Tensor_mode, f(2, 3), f(3), vary=MODES, dtypes=SMALL, dynamic="n 3"),
    OpCase(aten.div.Tensor_mode, SIGNED, DIVISORS, vary=MODES, dtypes=INTS[:-1]),
    OpCase(aten.div.Tensor_mode, f(4, low=0, high=200), f(4, low=1, high=9), vary=MODES, dtypes=(torch.uint8,)),
    OpCase(aten.div.Tensor_mode, EDGES, EDGE_DIVISORS, vary=MODES),
    OpCase(aten.div.Tensor_mode, i(2, 3, low=-9), f(3), rounding_mode="floor"),
    OpCase(aten.div.Scalar_mode, f(2, 3, low=-9, high=9), 2, vary=MODES, dtypes=(*SMALL, *INTS)),
    OpCase(aten.div.Scalar_mode, f(2, 3, low=-9, high=9), -0.3, vary=MODES, dtypes=SMALL),
    OpCase(aten.div.Scalar_mode, i(2, 3, low=-9, high=9), 0.3, vary=MODES),
    OpCase(aten.div.Tensor_mode, 2, f(2, 3), vary=MODES, dtypes=SMALL),
    OpCase(aten.floor_divide.default, 2, f(2, 3), dtypes=SMALL),
    OpCase(aten.div.Scalar_mode, EDGES, 0.1, vary=MODES),
    OpCase(aten.floor_divide.default, f(2, 3), f(3), dtypes=SMALL, dynamic="n 3"),
    OpCase(aten.floor_divide.default, SIGNED, DIVISORS, dtypes=INTS[:-1]),
    OpCase(aten.floor_divide.default, EDGES, EDGE_DIVISORS),
    OpCase(aten.floor_divide.default, LARGE, LARGE_DIVISORS),
    OpCase(aten.floor_divide.default, LARGE, 7),
    OpCase(aten.floor_divide.default, LARGE, -7),
    OpCase(aten.floor_divide.default, i(2, 3, low=-9), f(3)),
    OpCase(aten.floor_divide.Scalar, v((-(2**63), 1 - 2**63, -4, 2**63 - 1), torch.int64), 3),
    OpCase(aten.floor_divide.Scalar, f(2, 3), 0.7, dtypes=SMALL),
    OpCase(aten.floor_divide.Scalar, f(2, 3), -3, dtypes=INTS[:-1]),
    OpCase(aten.remainder.Tensor, f(2, 3), f(3), dtypes=SMALL, dynamic="n 3"),
    OpCase(aten.remainder.Tensor, SIGNED, DIVISORS, dtypes=INTS[:-1]),
    OpCase(aten.remainder.Tensor, f(4, low=0, high=200), f(4, low=1, high=9), dtypes=(torch.uint8,)),
    OpCase(aten.remainder.Tensor, EDGES, EDGE_DIVISORS),
    OpCase(aten.remainder.Scalar, f(2, 3), 0.3, dtypes=SMALL),
    OpCase(aten.remainder.Scalar, EDGES, -0.3),
    OpCase(aten.remainder.Scalar, f(2, 3), -3, dtypes=INTS[:-1]),
    OpCase(aten.remainder.Scalar_Tensor, 7, f(2, 3, low=1, high=9), dtypes=(torch.float32, torch.int64)),
    OpCase(prims.remainder.default, f(2, 3), f(2, 3)),
    OpCase(aten.fmod.Tensor, f(2, 3), f(3), dtypes=SMALL, dynamic="n 3"),
    OpCase(aten.fmod.Tensor, SIGNED, DIVISORS, dtypes=INTS[:-1]),
    OpCase(aten.fmod.Tensor, EDGES, EDGE_DIVISORS),
    OpCase(aten.fmod.Tensor, v([2**53 + 1, -(2**62) + 7, 2**62, 2**63 - 1]), v([3, 2**31, -7, 10]), dtypes=INTS[:1]),
    OpCase(aten.fmod.Scalar, v([2**53 + 1, -(2**62) + 7, 2**62, 2**63 - 1]), 7, dtypes=INTS[:1]),
    OpCase(aten.fmod.Scalar, f(2, 3), -0.3, dtypes=SMALL),
    OpCase(aten.fmod.Scalar, f(2, 3), 3, dtypes=INTS),
    OpCase(prims.fmod.default, f(2, 3), f(2, 3)),
)
