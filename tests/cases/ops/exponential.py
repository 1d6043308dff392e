"""Rows for exporter/lowering/lowerings/exponential.py."""

import math

import torch

from fxport.fx_passes import cube_root  # noqa: F401  # registers the op
from tests.cases.ops import FLOATS, INTS, OpCase, f, i, v

aten = torch.ops.aten
prims = torch.ops.prims
fxport = torch.ops.fxport

SMALL = FLOATS
EDGES = v((0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-30, 1e-6, -1e-6, 100.0, -100.0, 88.0))
BASES = v((0.0, -0.0, 1.0, -1.0, 2.0, -2.0, math.inf, -math.inf, math.nan, 0.5))
EXPONENTS = (0, 1, 2, 3, 5, -1, -2, 0.5, -0.5, 2.5)
POWERS = tuple(2.0**k for k in range(-20, 40))
POWERS_OF_TEN = tuple(10.0**k for k in range(11))
EXACT = {torch.float32: (0.0, 0.0), torch.float64: (0.0, 0.0)}

CASES = (
    *(OpCase(aten.pow.Tensor_Scalar, f(2, 3, low=0.1, high=2), e, dtypes=SMALL, dynamic="n 3") for e in EXPONENTS),
    *(OpCase(aten.pow.Tensor_Scalar, BASES, e) for e in EXPONENTS),
    *(OpCase(aten.pow.Tensor_Scalar, f(2, 3), e, dtypes=INTS) for e in (0, 1, 2, 3, 6)),
    OpCase(aten.pow.Tensor_Scalar, v((3, -7, 10)), 41, dtypes=INTS[:4]),
    OpCase(aten.pow.Tensor_Scalar, i(2, 3), 0.5),
    OpCase(aten.pow.Tensor_Tensor, f(2, 3, low=0.1, high=2), f(3), dtypes=SMALL, dynamic="n 3"),
    OpCase(aten.pow.Tensor_Tensor, f(2, 3, low=0.1, high=2), i(3, low=-2)),
    OpCase(
        aten.pow.Tensor_Tensor, v((2, -3, 0, 1, -1, -1, 3, 5, 0)), v((5, 3, 0, -4, -3, -2, 39, -1, 2)), dtypes=INTS[:4]
    ),
    OpCase(aten.pow.Tensor_Tensor, f(5, low=0, high=9), f(5, low=0, high=9), dtypes=(torch.uint8,)),
    OpCase(aten.pow.Scalar, 2, f(2, 3), dtypes=SMALL),
    OpCase(aten.pow.Scalar, 3, i(2, 3, low=0, high=40)),
    OpCase(aten.pow.Scalar, 2, v((0, 62, 63, 64, 100, 2**63 - 1))),
    OpCase(aten.pow.Tensor_Tensor, v((7, -2, -2, 3, 2, -1)), v((2**63 - 1, 63, 64, 2**62 + 1, 2**40, 2**63 - 1))),
    OpCase(aten.pow.Tensor_Tensor, v((2, 3, -2, -3)), v((127, 100, 64, 63)), dtypes=INTS[:4]),
    OpCase(aten.pow.Scalar, 1.5, i(2, 3, low=-4, high=9)),
    OpCase(prims.pow.default, f(2, 3, low=0.1, high=2), f(2, 3)),
    OpCase(prims.cbrt.default, v((0.0, 8.0, -27.0, 0.3, math.inf, -math.inf)), dtypes=FLOATS[:2]),
    OpCase(fxport.cbrt.default, v((0.0, 64.0, -27.0, 3375.0, 0.3, math.inf), torch.float64), dynamic="n"),
    OpCase(aten.exp2.default, EDGES, dtypes=(torch.float32, torch.float64)),
    OpCase(aten.exp2.default, f(2, 3, low=-99, high=99), dynamic="n 3"),
    OpCase(aten.exp2.default, i(2, 3)),
    OpCase(prims.exp2.default, f(2, 3)),
    OpCase(aten.expm1.default, EDGES, dtypes=(torch.float32, torch.float64)),
    OpCase(aten.expm1.default, f(2, 3), dtypes=SMALL, dynamic="n 3"),
    OpCase(prims.expm1.default, f(2, 3)),
    OpCase(aten.log1p.default, EDGES, dtypes=(torch.float32, torch.float64)),
    OpCase(
        aten.log1p.default,
        v((1e-7, -1e-7, 1e-20, 3e-5)),
        tol={torch.float32: (1.3e-6, 0.0)},
        why="relatively exact at 0",
    ),
    OpCase(aten.log1p.default, f(2, 3, low=-1, high=9), dtypes=SMALL, dynamic="n 3"),
    OpCase(prims.log1p.default, f(2, 3, low=-1, high=9)),
    OpCase(aten.log2.default, EDGES),
    OpCase(aten.log2.default, v(POWERS), dtypes=FLOATS[:2], tol=EXACT, why="powers of two are exact"),
    OpCase(aten.log2.default, f(2, 3, low=0, high=9), dtypes=SMALL, dynamic="n 3"),
    OpCase(prims.log2.default, f(2, 3, low=0, high=9)),
    OpCase(aten.log10.default, EDGES),
    OpCase(aten.log10.default, v(POWERS_OF_TEN), dtypes=FLOATS[:2], tol=EXACT, why="powers of ten are exact"),
    OpCase(aten.log10.default, f(2, 3, low=0, high=9), dtypes=SMALL, dynamic="n 3"),
    OpCase(prims.log10.default, f(2, 3, low=0, high=9)),
    OpCase(aten.logaddexp.default, f(2, 3), f(3), dtypes=SMALL, dynamic="n 3"),
    OpCase(aten.logaddexp.default, EDGES, v((*EDGES.values[::-1],))),
    OpCase(aten.logaddexp.default, EDGES, EDGES),
    OpCase(aten.logaddexp2.default, f(2, 3), f(3), dtypes=SMALL, dynamic="n 3"),
    OpCase(aten.logaddexp2.default, EDGES, EDGES),
)
