"""Moments and running sums are as exact as PyTorch's, also at large offsets, on long axes and at the ends of a type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fxport import export
from fxport.ort_runner.session import LocalSession

TIMES = 4
"""Error in parts of eager PyTorch's, both against float64."""

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "var": lambda x: x.var(-1),
    "std": lambda x: x.std(-1),
    "var of all": lambda x: x.var(),
    "biased std": lambda x: x.std(-1, correction=0),
    "std_mean": lambda x: torch.std_mean(x, -1)[0],
    "cumsum": lambda x: x.cumsum(-1),
    "cumprod": lambda x: (1 + x / x.abs().amax() / 1024).cumprod(-1),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
}


class Functions(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {name: function(x) for name, function in FUNCTIONS.items()}


def values() -> Tensor:
    return torch.randn(8, 4096, generator=torch.Generator().manual_seed(0))


INPUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "as drawn": lambda x: x,
    "offset": lambda x: x + 1e4,
    "small spread": lambda x: x / 1024 + 64,
    "large": lambda x: x * 1e4,
    "squares beyond float32": lambda x: x * 1e30,
    "squares below float32": lambda x: x * 1e-30,
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> LocalSession:
    path: Path = tmp_path_factory.mktemp("numerics") / "model.onnx"
    export(Functions(), (values(),)).save(path)
    opened = LocalSession(path, "cpu")
    opened.open()
    return opened


@pytest.mark.parametrize("name", INPUTS)
def test_the_error_is_not_far_above_pytorchs(session: LocalSession, name: str) -> None:
    x = INPUTS[name](values())
    want, exact = Functions()(x), Functions()(x.double())
    for (output, eager), got in zip(want.items(), session.run({"x": x.numpy()}).values(), strict=True):
        truth, own = exact[output].numpy(), eager.numpy()
        assert np.array_equal(np.isfinite(got), np.isfinite(own)), output
        kept = np.isfinite(own)
        least = np.spacing(np.abs(own[kept]).max(initial=0))  # one unit in the last place of the largest
        limit = TIMES * max(np.abs(own - truth)[kept].max(initial=0), least)
        assert np.abs(got - truth)[kept].max(initial=0) <= limit, output
