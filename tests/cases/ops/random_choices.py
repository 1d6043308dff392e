"""Rows for exporter/lowering/lowerings/random_choices.py; tests/exporter/test_random.py looks at the distributions."""

import torch

from tests.cases.ops import ALL, FLOATS, INTS, OpCase, f, i

aten = torch.ops.aten

LIKE = {"dynamic": "n 3", "compare": "shape"}
PROBABILITY = f(2, 3, low=0.0, high=1.0)

CASES = (
    OpCase(aten.randint.default, 7, [2, 3], vary={"dtype": (torch.int64, torch.uint8, torch.float32)}, compare="shape"),
    OpCase(aten.randint.generator, 7, [2, 3], generator=None, compare="shape"),
    OpCase(aten.randint.low, -3, 7, [2, 3], compare="shape"),
    OpCase(aten.randint.low_generator, -3, 7, [], generator=None, compare="shape"),
    OpCase(aten.randint_like.default, f(2, 3), 7, dtypes=(*FLOATS, *INTS), **LIKE),
    OpCase(aten.randint_like.generator, f(2, 3), 7, generator=None, **LIKE),
    OpCase(aten.randint_like.low_dtype, f(2, 3), -3, 7, dtypes=FLOATS, **LIKE),
    OpCase(aten.randint_like.low_generator_dtype, f(2, 3), -3, 7, generator=None, **LIKE),
    OpCase(aten.randint_like.Tensor, f(2, 3), i(low=5, high=9), **LIKE),
    OpCase(aten.random.default, f(2, 3), dtypes=ALL, **LIKE),
    OpCase(aten.random.to, f(2, 3), 5, dtypes=(*FLOATS, *INTS), **LIKE),
    OpCase(aten.randperm.default, 6, vary={"dtype": (torch.int64, torch.int32)}, compare="shape"),
    OpCase(aten.randperm.generator, 0, generator=None, compare="shape"),
    OpCase(aten.bernoulli.default, PROBABILITY, dtypes=FLOATS, **LIKE),
    OpCase(aten.bernoulli.Tensor, f(2, 3), f(3, low=0.0, high=1.0), dtypes=FLOATS, **LIKE),
    OpCase(aten.bernoulli.p, f(2, 3), 0.3, dtypes=ALL, **LIKE),
    OpCase(aten.bernoulli.p, f(2, 3), vary={"p": (0.0, 1.0)}),
    OpCase(aten.multinomial.default, PROBABILITY, 2, vary={"replacement": (False, True)}, dtypes=FLOATS, **LIKE),
    OpCase(aten.multinomial.default, f(5, low=0.1), 7, True, compare="shape"),
)
