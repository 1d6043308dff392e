"""Rows for exporter/lowering/lowerings/dropout.py; tests/exporter/test_random.py looks at the distributions."""

import torch

from tests.cases.ops import FLOATS, OpCase, f

aten = torch.ops.aten

LIKE = {"dtypes": FLOATS, "dynamic": "n 3", "compare": "shape"}
PLANES = {"dynamic": "n 3 4", "compare": "shape"}
EAGER = (torch.float32, torch.float64, torch.bfloat16)
NEVER = {"vary": {"p": (0.0, 0.5), "train": (False,)}}
SURE = {"vary": {"p": (0.0, 1.0), "train": (True,)}}

CASES = (
    *(
        row
        for target in (
            aten.dropout.default,
            aten.native_dropout.default,
            aten.feature_dropout.default,
            aten.alpha_dropout.default,
            aten.feature_alpha_dropout.default,
        )
        for row in (OpCase(target, f(2, 3), **NEVER), OpCase(target, f(2, 3), **SURE))
    ),
    OpCase(aten.dropout.default, f(2, 3), 0.5, True, **LIKE),
    OpCase(aten.dropout.default, f(), 0.5, True, compare="shape"),
    OpCase(aten.native_dropout.default, f(2, 3), vary={"p": (0.3,), "train": (True, None)}, **LIKE),
    OpCase(aten.feature_dropout.default, f(2, 3, 4), 0.5, True, **PLANES),
    OpCase(aten.alpha_dropout.default, f(2, 3), 0.5, True, **LIKE),
    OpCase(aten.feature_alpha_dropout.default, f(2, 3, 4), 0.5, True, **PLANES),
    OpCase(aten.rrelu.default, f(2, 3), 0.1, 0.4, False, dtypes=EAGER, dynamic="n 3"),
    OpCase(aten.rrelu.default, f(2, 3), 0.1, 0.4, True, **{**LIKE, "dtypes": EAGER}),
    OpCase(aten.rrelu_with_noise_functional.default, f(2, 3), f(2, 3), 0.1, 0.4, False),
    OpCase(aten.rrelu_with_noise_functional.default, f(2, 3), f(2, 3), 0.1, 0.4, True, compare="shape"),
)
