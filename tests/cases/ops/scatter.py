"""Rows for exporter/lowering/lowerings/scatter.py."""

import torch

from tests.cases.ops import ALL, NUMBERS, OpCase, f, i, v

aten = torch.ops.aten
INT, NAN = torch.int64, float("nan")
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
ORDER = v([[2, 0, 1], [1, 2, 3]], INT)  # no place twice along axis 0
AGAIN = i(5, 3)
SELF = {"include_self": (True, False)}
REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")

CASES = (
    OpCase(aten.scatter.src, f(4, 3), 0, ORDER, f(2, 3), dtypes=ALL, dynamic="n 3"),
    OpCase(aten.scatter.src, f(4, 3), 0, ORDER, f(5, 4)),  # more in the source than is taken
    OpCase(aten.scatter.src, f(3, 4), -1, ORDER, f(3, 5), dynamic="3 m"),
    OpCase(aten.scatter.src, f(4, 3), 0, i(0, 3), f(0, 3)),
    OpCase(aten.scatter.src, f(), 0, v(0, INT), f()),
    OpCase(aten.scatter.src, f(3), 0, v(2, INT), f(2)),
    OpCase(
        aten.scatter.value,
        f(4, 3),
        vary={"dim": (0, -2), "value": (1, 2.5)},
        index=i(5, 2),
        dtypes=ALL,
        dynamic="n 3, m 2",
    ),
    OpCase(aten.scatter.value, f(), 0, v(0, INT), 3),
    OpCase(aten.scatter_add.default, f(4, 3), 0, AGAIN, f(5, 3), dtypes=NUMBERS, dynamic="n 3, m 3, m 3"),
    OpCase(aten.scatter_add.default, f(4, 3), -1, i(2, 6, high=3), f(4, 7), dtypes=FLOATS, dynamic="n 3, 2 6, n 7"),
    OpCase(aten.scatter_add.default, f(4, 3), 0, AGAIN, f(5, 3), dtypes=(torch.int8, torch.uint8, torch.bool)),
    OpCase(aten.scatter_add.default, f(), 0, v(0, INT), f()),
    OpCase(aten.scatter_add.default, f(4), 0, i(0), f(0)),
    OpCase(aten.scatter.reduce, f(4, 3), 0, AGAIN, f(5, 3), vary={"reduce": ("add", "multiply")}, dtypes=NUMBERS),
    OpCase(aten.scatter.value_reduce, f(4, 3), 0, AGAIN, 2.0, vary={"reduce": ("add", "multiply")}, dtypes=NUMBERS),
    OpCase(
        aten.scatter_reduce.two,
        f(4, 3),
        0,
        AGAIN,
        f(5, 3),
        vary={"reduce": REDUCTIONS, **SELF},
        dtypes=(*NUMBERS, torch.bfloat16, torch.uint8),
        dynamic="n 3, m 3, m 3",
    ),
    OpCase(
        aten.scatter_reduce.two, f(4), 0, i(5, high=2), f(5), vary={"reduce": REDUCTIONS, **SELF}
    ),  # some get nothing
    OpCase(
        aten.scatter_reduce.two,
        v([NAN, 1.0, 2.0, 3.0]),
        0,
        v([0, 1, 1, 2, 2], INT),
        v([1.0, NAN, 2.0, 5.0, 4.0]),
        vary={"reduce": REDUCTIONS, **SELF},
        dtypes=FLOATS,
    ),
    OpCase(aten.scatter_reduce.two, f(), 0, v(0, INT), f(), vary={"reduce": REDUCTIONS, **SELF}),
    OpCase(
        aten.scatter_reduce.two,
        f(4, 3),
        0,
        AGAIN,
        f(5, 3),
        vary={"reduce": ("sum", "prod", "amax", "amin"), **SELF},
        dtypes=(torch.bool,),
    ),
    OpCase(
        aten.index_reduce.default,
        f(4, 3),
        0,
        v([0, 2, 2, 0, 1], INT),
        f(5, 3),
        vary={"reduce": REDUCTIONS[1:], **SELF},
        dtypes=NUMBERS,
        dynamic="n m, 5, 5 m",
    ),
    OpCase(
        aten.index_reduce.default,
        f(2, 4, 3),
        -2,
        i(5),
        f(2, 5, 3),
        vary={"reduce": REDUCTIONS[1:], **SELF},
        dynamic="n 4 3, m, n m 3",
    ),
    OpCase(aten.index_reduce.default, f(3), 0, i(0), f(0), "prod"),
    OpCase(aten.scatter_reduce.two, f(3), 0, i(0), f(0), vary={"reduce": REDUCTIONS}),
)
