"""Rows for exporter/lowering/lowerings/activation.py."""

import math

import torch

from tests.cases.ops import FLOATS, INTS, OpCase, f, v

aten = torch.ops.aten

SMALL = FLOATS
EDGES = v((0.0, -0.0, 1.0, -1.0, math.inf, math.nan, 25.0, -25.0, 100.0, -100.0))

PLAIN = (
    aten.relu,
    aten.relu6,
    aten.hardtanh,
    aten.silu,
    aten.mish,
    aten.hardswish,
    aten.hardsigmoid,
    aten.leaky_relu,
    aten.elu,
    aten.selu,
    aten.celu,
    aten.softplus,
    aten.log_sigmoid,
    aten.hardshrink,
    aten.softshrink,
)
"""Activations of one tensor, at their default arguments."""

CASES = (
    OpCase(aten.log_sigmoid_forward.default, f(3, 4), results=1),
    *(OpCase(op.default, f(3, 4, low=-9, high=9), dtypes=SMALL, dynamic="n m") for op in PLAIN),
    *(OpCase(op.default, EDGES, dtypes=FLOATS[:2]) for op in PLAIN),
    OpCase(aten.relu.default, f(2, 3), dtypes=INTS[:2]),
    OpCase(aten.relu6.default, f(2, 3), dtypes=INTS[:2]),
    OpCase(aten.hardtanh.default, f(2, 3), -2, 3, dtypes=(torch.float32, *INTS[:2])),
    OpCase(aten.hardtanh.default, f(2, 3), -0.5, 0.25),
    OpCase(
        aten.gelu.default, f(2, 3, low=-6, high=6), vary={"approximate": ("none", "tanh")}, dtypes=SMALL, dynamic="n 3"
    ),
    OpCase(aten.gelu.default, f(2, 3, low=-6, high=6), approximate="tanh"),
    OpCase(aten.leaky_relu.default, f(2, 3), -0.3),
    OpCase(aten.prelu.default, f(2, 3, 4), f(3), dtypes=SMALL, dynamic="n 3 m, 3"),
    OpCase(aten.prelu.default, f(2, 3, 4), f(1)),
    OpCase(aten.prelu.default, f(4), f(1)),
    OpCase(aten.prelu.default, f(2, 3), f(3)),
    OpCase(aten.prelu.default, f(), f()),
    OpCase(aten._prelu_kernel.default, f(2, 3, 4), f(1, 3, 1)),
    OpCase(aten.elu.default, f(2, 3, low=-4, high=4), 0.5, 2.0, dtypes=SMALL),
    OpCase(aten.elu.default, f(2, 3, low=-4, high=4), 0.5, 2.0, 0.7),
    OpCase(aten.celu.default, f(2, 3, low=-4, high=4), 0.5, dtypes=SMALL),
    OpCase(aten.softplus.default, f(2, 3, low=-4, high=4), 2.0, 3, dtypes=SMALL),
    OpCase(aten.softplus.default, EDGES, 0.5, 40),
    OpCase(aten.threshold.default, f(2, 3), 0.1, 20.0, dtypes=SMALL, dynamic="n 3"),
    OpCase(aten.threshold.default, f(2, 3), 1, 20, dtypes=INTS[:2]),
    OpCase(aten.threshold.default, EDGES, 0.0, 1.0),
    OpCase(aten.glu.default, f(2, 6), dtypes=SMALL, dynamic="n 6"),
    OpCase(aten.glu.default, f(4, 3), 0),
    OpCase(aten.glu.default, f(0, 3), 0),
    OpCase(aten.hardshrink.default, f(2, 3), 0.2),
    OpCase(aten.softshrink.default, f(2, 3), 0.2),
)
