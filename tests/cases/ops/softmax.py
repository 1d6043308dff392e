"""Rows for exporter/lowering/lowerings/softmax.py."""

import torch

from tests.cases.ops import FLOATS, OpCase, f, i, v

aten = torch.ops.aten

NAN, INF = float("nan"), float("inf")


def rows(composite: object, core: object) -> tuple[OpCase, ...]:
    return (
        OpCase(composite, f(2, 3, 4), vary={"dim": (0, 1, -1)}, dtypes=FLOATS, dynamic="n 3 m"),
        OpCase(composite, f(2, 3, low=-100.0, high=100.0), 1, vary={"dtype": (None, torch.float64)}),
        OpCase(composite, i(2, 3), 1, dtype=torch.float32),
        OpCase(composite, v([[-INF, -INF], [INF, 1.0], [NAN, 1.0], [-INF, 1.0]]), 1, dtypes=FLOATS),
        OpCase(composite, f(2, 0, 3), 1),
        OpCase(composite, f(), 0, dtypes=FLOATS),
        OpCase(composite, v(INF), 0),
        OpCase(core, f(2, 3), -1, False, dtypes=FLOATS, dynamic="n 3"),
    )


CASES = (
    *rows(aten.softmax.int, aten._softmax.default),
    *rows(aten.log_softmax.int, aten._log_softmax.default),
)
