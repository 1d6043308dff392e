"""`torch.einsum` of three tensors, whose order opt_einsum finds where it is installed, keeps dynamic sizes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.running import assert_same, run_exported


class Product(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.einsum("bnd,bnd,bme->bnm", x, y, y)


def contract_path(equation: str, *operands: Tensor, optimize: str) -> tuple[list[tuple[int, int]], None]:
    """Choose by numbers, as opt_einsum does: each size is a key of a dict there."""
    sizes = {int(size) for each in operands for size in each.shape}
    return ([(1, 2), (0, 1)] if max(sizes) > 3 else [(0, 1), (0, 1)]), None


def test_an_order_for_numbers_fixes_no_size(monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = torch.backends.opt_einsum  # the stubs know no attributes of it
    module = library.m  # behind the settings
    monkeypatch.setattr(module, "_opt_einsum", SimpleNamespace(contract_path=contract_path))
    monkeypatch.setattr(module, "is_available", lambda: True)
    monkeypatch.setattr(module, "enabled", True)
    monkeypatch.setattr(module, "strategy", "auto")
    calls = [(torch.randn(2, n, 4), torch.randn(2, n, 4)) for n in (5, 3)]
    results = run_exported(Product(), calls, dynamic_shapes={"x": {1: "n"}, "y": {1: "n"}})
    for call, result in zip(calls, results, strict=True):
        assert_same(result, [torch.einsum("bnd,bnd,bme->bnm", call[0], call[1], call[1])], tol=(1e-4, 1e-5))
    assert library.enabled
