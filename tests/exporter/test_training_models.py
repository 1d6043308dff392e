"""Whole architectures: each step in ONNX Runtime is as near to float64 as eager PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cases.training import CASES, Task
from tests.training import LIMIT, MAKERS, noise_of

QUICK = {("cnn", "SGD with momentum"), ("gcn", "AdamW")}
"""What the usual run trains, for a step of each size; `--slow` trains all for 20 steps."""


def row(case: Callable[[], Task], name: str) -> Any:
    marks = () if (case.__name__, name) in QUICK else pytest.mark.slow
    return pytest.param(case, name, id=f"{case.__name__}, {name}", marks=marks)


@pytest.mark.parametrize(("build", "optimizer"), [row(case, name) for case in CASES for name in MAKERS])
def test_steps_are_within_the_noise_of_float32(
    build: Callable[[], Task], optimizer: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    steps = 20 if request.config.getoption("--slow") else 3
    assert noise_of(build(), MAKERS[optimizer], tmp_path, steps).ratio <= LIMIT
