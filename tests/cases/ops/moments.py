"""Rows for exporter/lowering/lowerings/moments.py."""

import torch

from tests.cases.ops import FLOATS, OpCase, f

aten = torch.ops.aten


def rows(target: object) -> tuple[OpCase, ...]:
    return (
        OpCase(target, f(2, 3, 4), [0, -1], vary={"keepdim": (False, True)}, dtypes=FLOATS, dynamic="n 3 m"),
        OpCase(
            target, f(2, 3), None, vary={"correction": (None, 0, 1, 2, 0.5), "keepdim": (False, True)}, dynamic="n m"
        ),
        OpCase(target, f(2, 3), [1], vary={"correction": (0, 2.5)}),
        OpCase(target, f(2, 3), [], correction=0),
        OpCase(target, f(5, 1), [0], dynamic="n 1"),
    )


def degenerate(target: object) -> tuple[OpCase, ...]:
    """Too few elements: infinity, or NaN where there is no spread either."""
    return (
        OpCase(target, f(2, 3), [1], vary={"correction": (3, 5)}),
        OpCase(target, f(2, 1), [1]),
        OpCase(target, f(2, 0), [1]),
        OpCase(target, f(), [0]),
        OpCase(target, f(), correction=0),
    )


TARGETS = (aten.var.correction, aten.std.correction, aten.var_mean.correction, aten.std_mean.correction)

CASES = (
    *(row for target in TARGETS for row in (*rows(target), *degenerate(target))),
    OpCase(aten.var.default, f(2, 3), vary={"unbiased": (False, True)}),
    OpCase(aten.std.dim, f(2, 3), [1], vary={"unbiased": (False, True), "keepdim": (False, True)}),
)
