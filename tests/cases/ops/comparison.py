"""Rows for exporter/lowering/lowerings/comparison.py."""

import math

import torch

from tests.cases.ops import BOOL, FLOATS, INTS, OpCase, b, f, i, v

aten = torch.ops.aten
prims = torch.ops.prims

SMALL = FLOATS
NAN, INF = math.nan, math.inf
EDGES = v((0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e30, NAN, 2.0))
OTHERS = v((-0.0, 1.0, 1.0, NAN, INF, INF, NAN, -1e30, 2.0, NAN))
COMPARISONS = (aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge)
PRIMS = (prims.eq, prims.ne, prims.lt, prims.le, prims.gt, prims.ge)
HALVES = v([2**31, 2**32 - 1, 2**32, 2**31 - 1, -(2**31), -(2**31) - 1, 2**63 - 1, -1], torch.int64)
EXTREMA = (aten.maximum, aten.minimum, aten.fmax, aten.fmin)

CASES = (
    *(OpCase(op.Tensor, f(2, 3), f(3), dtypes=(*SMALL, *INTS, *BOOL), dynamic="n 3") for op in COMPARISONS),
    *(OpCase(op.Tensor, EDGES, OTHERS) for op in COMPARISONS),
    *(OpCase(op.Tensor, i(2, 3), f(3)) for op in COMPARISONS),
    *(OpCase(op.Scalar, f(2, 3), 1, dtypes=(*SMALL, *INTS, *BOOL)) for op in COMPARISONS),
    *(OpCase(op.Scalar, i(2, 3), 1.5) for op in COMPARISONS),
    *(OpCase(op.default, f(2, 3), f(2, 3)) for op in PRIMS),
    *(OpCase(op.default, f(2, 3), f(3), dtypes=(*SMALL, *INTS[:2], *INTS[3:], *BOOL), dynamic="n 3") for op in EXTREMA),
    *(OpCase(op.default, EDGES, OTHERS) for op in EXTREMA),
    *(OpCase(op.default, HALVES, i(8, low=-1)) for op in (aten.maximum, aten.minimum)),
    *(OpCase(op.default, f(2, 3), f(2, 3)) for op in (prims.maximum, prims.minimum, prims.fmax, prims.fmin)),
    *(
        OpCase(op.default, EDGES, dtypes=SMALL)
        for op in (aten.isnan, aten.isinf, aten.isposinf, aten.isneginf, aten.isfinite)
    ),
    *(
        OpCase(op.default, f(2, 3), dtypes=(torch.int64, *BOOL), dynamic="n 3")
        for op in (aten.isnan, aten.isinf, aten.isposinf, aten.isneginf, aten.isfinite)
    ),
    OpCase(prims.isfinite.default, EDGES),
    OpCase(aten.where.self, b(2, 3), f(2, 3), f(3), dtypes=(*SMALL, torch.int64, torch.int32), dynamic="n 3, n 3"),
    OpCase(aten.where.self, b(3), f(2, 1), i(3)),
    OpCase(aten.where.self, b(), f(2, 3), f()),
    OpCase(aten.where.ScalarSelf, b(2, 3), 1.5, f(3)),
    OpCase(aten.where.ScalarOther, b(2, 3), f(3), 2),
    OpCase(aten.where.Scalar, b(2, 3), 1, 0),
    OpCase(aten.where.Scalar, b(2, 3), 1.5, 0, dynamic="n m"),
    OpCase(prims.where.default, b(2, 3), f(2, 3), f(2, 3)),
    OpCase(aten.masked_fill.Scalar, f(2, 3), b(2, 1), 1, dtypes=(*SMALL, torch.int64), dynamic="n 3, n 1"),
    OpCase(aten.where.self, b(2, 3), b(2, 3), b(3), dynamic="n 3, n 3"),
    OpCase(aten.masked_fill.Scalar, b(2, 3), b(3), True),
    OpCase(aten.masked_fill.Scalar, f(2, 3), b(3), -INF),
    OpCase(aten.isclose.default, EDGES, OTHERS, vary={"equal_nan": (False, True)}, dtypes=SMALL),
    OpCase(aten.isclose.default, v((1.0, 1.00001, 1.1)), v((1.0, 1.0, 1.0)), dtypes=SMALL),
    OpCase(aten.isclose.default, f(2, 3), f(3), rtol=0.5, atol=0.0, dtypes=(*SMALL, *INTS, *BOOL), dynamic="n 3"),
    OpCase(aten.isclose.default, f(2, 3), f(3), rtol=0.0, atol=0.0, dtypes=INTS),
    OpCase(aten.masked_fill.Tensor, f(2, 3), b(2, 3), i(), dtypes=(torch.float32, torch.int64)),
    OpCase(aten.clamp.default, f(2, 3), vary={"min": (-1, 0, None), "max": (0.5, 1)}, dtypes=SMALL, dynamic="n 3"),
    OpCase(
        aten.clamp.default, f(2, 3), 2, 1, dtypes=(torch.float32, torch.int64, torch.int32, torch.int8, torch.uint8)
    ),
    OpCase(aten.clamp.default, i(2, 3, low=-3), 0.5),
    OpCase(aten.clamp.default, EDGES, vary={"min": (-1.0, NAN, 0, None), "max": (1.0, INF, NAN)}),
    OpCase(aten.clamp.default, EDGES, 0),
    OpCase(aten.clamp.default, HALVES, vary={"min": (3, None), "max": (9, 2**32, 2**40)}),
    OpCase(aten.clamp.Tensor, f(2, 3), f(3), f(2, 1), dtypes=SMALL, dynamic="n 3, 3, n 1"),
    OpCase(aten.clamp.Tensor, f(2, 3), None, i(3)),
    OpCase(aten.clamp.Tensor, f(2, 3), max=f(3), dtypes=(torch.float32, torch.int64)),
    OpCase(aten.clamp.Tensor, EDGES, OTHERS),
    OpCase(aten.clamp_min.default, f(2, 3), 0.5),
    OpCase(aten.clamp_min.Tensor, f(2, 3), f(3)),
    OpCase(aten.clamp_max.default, f(2, 3), 0.5),
    OpCase(aten.clamp_max.Tensor, f(2, 3), f(3)),
    OpCase(
        aten.nan_to_num.default,
        EDGES,
        vary={"nan": (None, 7.0), "posinf": (None, 8.0), "neginf": (None, -9.0)},
        dtypes=SMALL,
    ),
    OpCase(aten.nan_to_num.default, EDGES, INF, vary={"posinf": (None, INF, 1.0)}),
    OpCase(aten.nan_to_num.default, i(2, 3)),
    OpCase(aten.nan_to_num.default, b(2, 3), vary={"nan": (None, 1.0)}),
)
