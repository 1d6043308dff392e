"""Rows for exporter/lowering/lowerings/random.py; tests/exporter/test_random.py looks at the distributions."""

import torch

from tests.cases.ops import FLOATS, OpCase, f

aten = torch.ops.aten

LIKE = {"dtypes": FLOATS, "dynamic": "n 3", "compare": "shape"}

CASES = (
    OpCase(aten.rand.default, [2, 3], vary={"dtype": (None, *FLOATS)}, compare="shape"),
    OpCase(aten.rand.default, [], compare="shape"),
    OpCase(aten.rand.generator, [0, 3], generator=None, compare="shape"),
    OpCase(aten.rand_like.default, f(2, 3), **LIKE),
    OpCase(aten.rand_like.generator, f(), generator=None, compare="shape"),
    OpCase(aten.uniform.default, f(2, 3), -1.0, 3.0, **LIKE),
    OpCase(aten.randn.default, [2, 3], vary={"dtype": (None, *FLOATS)}, compare="shape"),
    OpCase(aten.randn.default, [], compare="shape"),
    OpCase(aten.randn.generator, [2, 3], generator=None, compare="shape"),
    OpCase(aten.randn_like.default, f(2, 3), **LIKE),
    OpCase(aten.randn_like.generator, f(), generator=None, compare="shape"),
    OpCase(aten.normal.Tensor_float, f(2, 3), 2.0, **LIKE),
    OpCase(aten.normal.float_Tensor, 1.0, f(2, 3, low=0.1), **LIKE),
    OpCase(aten.normal.Tensor_Tensor, f(2, 3), f(3, low=0.1), **LIKE),
    OpCase(aten.normal.float_float, 1.0, 2.0, [2, 3], compare="shape"),
    OpCase(aten.normal_functional.default, f(2, 3), 1.0, 2.0, **LIKE),
    OpCase(aten.log_normal.default, f(2, 3), **LIKE),
    OpCase(aten.exponential.default, f(2, 3), 2.0, **LIKE),
    OpCase(aten.geometric.default, f(2, 3), 0.25, **LIKE),
    OpCase(aten.cauchy.default, f(2, 3), **LIKE),
)
