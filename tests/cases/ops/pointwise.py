"""Rows for exporter/lowering/lowerings/pointwise.py."""

import math

import torch

from tests.cases.ops import FLOATS, INTS, NUMBERS, OpCase, b, f, i, v

aten = torch.ops.aten
prims = torch.ops.prims

SMALL = FLOATS
EDGES = v((0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-30, -3e38))

UNARY = {
    (aten.acos.default, prims.acos.default): (-1.0, 1.0),
    (aten.acosh.default, prims.acosh.default): (1.0, 9.0),
    (aten.asin.default, prims.asin.default): (-1.0, 1.0),
    (aten.asinh.default, prims.asinh.default): (-9.0, 9.0),
    (aten.atan.default, prims.atan.default): (-9.0, 9.0),
    (aten.atanh.default, prims.atanh.default): (-1.0, 1.0),
    (aten.cos.default, prims.cos.default): (-9.0, 9.0),
    (aten.cosh.default, prims.cosh.default): (-9.0, 9.0),
    (aten.erf.default, prims.erf.default): (-4.0, 4.0),
    (aten.exp.default, prims.exp.default): (-9.0, 9.0),
    (aten.log.default, prims.log.default): (0.0, 9.0),
    (aten.reciprocal.default, prims.reciprocal.default): (-9.0, 9.0),
    (aten.rsqrt.default, prims.rsqrt.default): (0.0, 9.0),
    (aten.sigmoid.default,): (-9.0, 9.0),
    (aten.sin.default, prims.sin.default): (-9.0, 9.0),
    (aten.sinh.default, prims.sinh.default): (-9.0, 9.0),
    (aten.sqrt.default, prims.sqrt.default): (0.0, 9.0),
    (aten.tan.default, prims.tan.default): (-1.5, 1.5),
    (aten.tanh.default, prims.tanh.default): (-4.0, 4.0),
}
"""Targets of one float tensor, and where to ask them."""

CASES = (
    *(
        OpCase(targets[0], f(3, 4, low=low, high=high), dtypes=SMALL, dynamic="n m")
        for targets, (low, high) in UNARY.items()
    ),
    *(OpCase(target, f(3, 4, low=low, high=high)) for targets, (low, high) in UNARY.items() for target in targets[1:]),
    *(OpCase(targets[0], EDGES, dtypes=FLOATS[:2]) for targets in UNARY),
    *(OpCase(targets[0], i(4, low=0, high=2)) for targets in UNARY),
    OpCase(aten.add.Tensor, f(2, 3), f(3), vary={"alpha": (1, 2)}, dtypes=NUMBERS, dynamic="n 3"),
    OpCase(aten.add.Tensor, f(2, 3), f(1), dtypes=INTS),
    OpCase(aten.add.Tensor, b(2, 3), b(3)),
    OpCase(aten.add.Tensor, b(2, 3), i(3)),
    OpCase(aten.add.Tensor, f(2, 3), i(3), alpha=3),
    OpCase(aten.add.Tensor, f(2, 0), f()),
    OpCase(aten.add.Scalar, f(2, 3), 1.5),
    OpCase(aten.add.Scalar, i(2, 3), 1.5, 2),
    OpCase(aten.add.Scalar, b(2, 3), True),
    OpCase(aten.add.Tensor, 2, f(2, 3), dtypes=NUMBERS),
    OpCase(aten.mul.Tensor, 2, f(2, 3), dtypes=NUMBERS),
    OpCase(prims.add.default, f(2, 3), f(2, 3)),
    OpCase(aten.sub.Tensor, f(2, 3), f(3), vary={"alpha": (1, 2)}, dtypes=NUMBERS, dynamic="n 3"),
    OpCase(aten.sub.Tensor, f(2, 3), f(3), dtypes=INTS),
    OpCase(aten.sub.Scalar, f(2, 3), 1.5, 2),
    OpCase(prims.sub.default, f(2, 3), f(2, 3)),
    OpCase(aten.rsub.Tensor, f(2, 3), i(3), alpha=2, dynamic="n 3"),
    OpCase(aten.rsub.Scalar, f(2, 3), 1, 2, dtypes=NUMBERS),
    OpCase(aten.mul.Tensor, f(2, 3), f(2, 1), dtypes=(*NUMBERS, *INTS[2:]), dynamic="n m, n 1"),
    OpCase(aten.mul.Tensor, b(2, 3), b(3)),
    OpCase(aten.mul.Tensor, f(2, 3), b(3)),
    OpCase(aten.mul.Scalar, f(2, 3), 3, dtypes=NUMBERS),
    OpCase(prims.mul.default, f(2, 3), f(2, 3)),
    OpCase(aten.neg.default, f(2, 3), dtypes=(*SMALL, *INTS), dynamic="n 3"),
    OpCase(prims.neg.default, f(2, 3)),
    OpCase(aten.abs.default, f(2, 3), dtypes=(*SMALL, *INTS), dynamic="n 3"),
    OpCase(aten.abs.default, EDGES),
    OpCase(prims.abs.default, f(2, 3)),
    OpCase(aten.addcmul.default, f(2, 3), f(3), f(2, 1), vary={"value": (1, 0.5)}, dtypes=SMALL, dynamic="n 3, 3, n 1"),
    OpCase(aten.addcmul.default, i(2, 3), i(3), i(2, 1), value=2),
    OpCase(
        aten.addcdiv.default, f(2, 3), f(3), f(2, 1, low=1, high=2), vary={"value": (1, 0.5)}, dynamic="n 3, 3, n 1"
    ),
    OpCase(aten.lerp.Scalar, f(2, 3), f(3), 0.25, dynamic="n 3"),
    OpCase(aten.lerp.Scalar, f(2, 3), f(3), 0.75),
    OpCase(aten.lerp.Scalar, v((1e8, 1.0)), v((1.0, 1e8)), 1.0),
    OpCase(aten.lerp.Tensor, f(2, 3), f(3), f(2, 3, low=-1, high=2), dtypes=SMALL, dynamic="n 3, 3, n 3"),
    OpCase(aten.lerp.Tensor, v((1e8, 1.0)), v((1.0, 1e8)), v(1.0)),
    OpCase(aten.hypot.default, f(2, 3), f(3), dtypes=SMALL, dynamic="n 3"),
    OpCase(
        aten.hypot.default, v((0.0, 1e30, math.inf, 1e-30, -math.inf, 3.0)), v((0.0, 1e30, math.inf, 1e-30, 2.0, -4.0))
    ),
    OpCase(aten.hypot.default, v((math.inf, -math.inf, math.nan, math.nan)), v((math.nan, math.nan, math.inf, 1.0))),
    OpCase(prims.hypot.default, f(2, 3), f(2, 3)),
)
