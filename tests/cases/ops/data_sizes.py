"""Inputs whose sizes only a run tells."""

from __future__ import annotations

import torch

import fxport.fx_passes.data_sizes  # noqa: F401  # registers the op
from tests.cases.ops import OpCase, f

sized_by_data = torch.ops.fxport.sized_by_data.default

CASES = (OpCase(sized_by_data, f(3, 4), [3, 4], [], []),)
