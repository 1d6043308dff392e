"""Rows for exporter/lowering/lowerings/runs.py."""

import torch

from tests.cases.ops import ALL, FLOATS, OpCase, b, f, i, v

aten = torch.ops.aten

NAN = float("nan")
SOME = v([[1, 0, 0, 1], [1, 1, 0, 0], [1, 1, 0, 0]])
FLAGS = {"return_inverse": (False, True), "return_counts": (False, True)}
GIVEN = {"return_inverse": True, "return_counts": True}

CASES = (
    OpCase(aten._unique.default, i(4, 5, high=6), True, True, dynamic="n m"),
    OpCase(aten._unique2.default, SOME, vary=FLAGS, dtypes=ALL),
    OpCase(aten._unique2.default, i(4, 5, high=6), True, True, True, dynamic="n m"),
    OpCase(aten._unique2.default, f(4, 5), True, True, True, dynamic="n m"),
    OpCase(aten._unique2.default, v([[3.0, NAN, 1.0], [NAN, 3.0, 1.0]]), True, True, True, dtypes=FLOATS),
    OpCase(aten._unique2.default, f(0), True, True, True, dtypes=(torch.float32, torch.int64)),
    OpCase(aten._unique2.default, f(), True, True, True, dtypes=(torch.float32, torch.bool)),
    OpCase(aten.unique_dim.default, SOME, vary={"dim": (0, 1, -1)}, **GIVEN, dtypes=ALL),
    OpCase(aten.unique_dim.default, i(5, 2, high=2), 0, **GIVEN, dynamic="n 2"),
    OpCase(aten.unique_dim.default, v([2.0, 1.0, 2.0]), 0, **GIVEN),
    OpCase(aten.unique_dim.default, v([[1.0, 2.0], [1.0, 2.0], [NAN, 3.0], [NAN, 3.0]]), 0, **GIVEN),
    OpCase(aten.unique_consecutive.default, SOME, vary=FLAGS, dtypes=ALL),
    OpCase(aten.unique_consecutive.default, SOME, vary={"dim": (0, 1)}, **GIVEN),
    OpCase(aten.unique_consecutive.default, i(4, 5, high=2), **GIVEN, dynamic="n m"),
    OpCase(aten.unique_consecutive.default, b(8, 2), dim=0, **GIVEN, dynamic="n 2"),
    OpCase(aten.unique_consecutive.default, v([2.0, NAN, NAN]), **GIVEN),
    OpCase(aten.unique_consecutive.default, f(0), **GIVEN),
    OpCase(aten.unique_consecutive.default, f(), **GIVEN),
)
