"""Rows for exporter/lowering/lowerings/airy.py."""

import math

import torch

from tests.cases.ops import OpCase, f, i, v

aten = torch.ops.aten

CASES = (
    OpCase(aten.special_airy_ai.default, f(3, 4, low=-9, high=5), dtypes=(torch.float32, torch.float64), dynamic="n m"),
    OpCase(aten.special_airy_ai.default, v((0.0, 1.99, 2.01, -1.99, -2.01, 30.0, -30.0, math.nan))),
    OpCase(aten.special_airy_ai.default, i(5, low=-5, high=5)),
)
