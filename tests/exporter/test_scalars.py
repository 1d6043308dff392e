"""Numbers taken out of tensors and put back: what `item` gives is computed in the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.running import assert_same, run_exported

X = torch.tensor([1.0, -2.0, 0.25])

MODELS: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "float": (lambda x, y: x * y.item(), torch.tensor(1.5)),
    "half": (lambda x, y: x.clamp(max=y.item()), torch.tensor(0.125, dtype=torch.float16)),
    "integer": (lambda x, y: x * y.item() + y.item() // 2, torch.tensor(7)),
    "small integer": (lambda x, y: x * y.item() * 2.5, torch.tensor(7, dtype=torch.int8)),
    "truth": (lambda x, y: torch.full((3,), y.item()) & (x > 0), torch.tensor(True)),
    "power": (lambda x, y: x + (y.item() * 3.0) ** 0.5, torch.tensor(7.0)),
    "choice": (lambda x, y: torch.where(x > y.item(), x, y.item()), torch.tensor([0.2])),
    "of one element": (lambda x, y: x + y.sum().item(), torch.tensor([1.0, 2.0])),
    "tensor again": (lambda x, y: x + torch.scalar_tensor(y.item()), torch.tensor(3)),
}


class Called(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.function(x, y)


@pytest.mark.parametrize("name", MODELS)
def test_a_number_out_of_a_tensor(name: str) -> None:
    function, y = MODELS[name]
    other = torch.zeros_like(y) if y.dtype == torch.bool else y * 2 + 1
    results = run_exported(Called(function), [(X, y), (X, other)])
    for number, result in zip((y, other), results, strict=True):
        assert_same(result, [function(X, number)])
