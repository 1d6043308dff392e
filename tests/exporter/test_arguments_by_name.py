"""Functions that a capture looks at, with arguments by their names: it takes them as PyTorch does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from fxport.diagnostics import Log, rules
from tests.running import assert_same, run_exported

CALLS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "arange": lambda x, i: torch.arange(end=x.shape[0]),
    "argmax": lambda x, i: torch.argmax(input=x, dim=1),
    "argsort": lambda x, i: torch.argsort(input=x, dim=1),
    "sort": lambda x, i: torch.sort(input=x, dim=1),
    "topk": lambda x, i: torch.topk(input=x, k=2, dim=1),
    "bincount": lambda x, i: torch.bincount(input=x.argmax(1), minlength=4),
    "unique": lambda x, i: torch.unique(input=x.argmax(1)),
    "remainder": lambda x, i: torch.remainder(input=i, other=3),
    "remainder of a tensor": lambda x, i: i.remainder(other=3),
    "narrow": lambda x, i: torch.narrow(input=x, dim=1, start=0, length=2),
    "max": lambda x, i: torch.max(input=x, dim=1),
    "max of two": lambda x, i: torch.max(input=x, other=-x),
    "min": lambda x, i: torch.min(input=x),
    "where": lambda x, i: torch.where(condition=x > 0, input=x, other=-x),
    "where, the condition by its place": lambda x, i: torch.where(x > 0, input=x, other=-x),
    "searchsorted": lambda x, i: torch.searchsorted(sorted_sequence=i, input=i + 1),
    "equal": lambda x, i: x * torch.equal(input=x, other=-x),
    "equal, the first by its place": lambda x, i: x * x.equal(other=-x),
    "allclose": lambda x, i: x * torch.allclose(input=x, other=-x, atol=0.5),
    "kron": lambda x, i: torch.kron(input=x, other=x[:1]),
    "kron of a tensor": lambda x, i: x.kron(other=x[:1]),
    "inner": lambda x, i: torch.inner(input=x[:, 0], other=x[:, 1]),
    "tensor_split by sections": lambda x, i: x.tensor_split(sections=2),
    "tensor_split by indices": lambda x, i: torch.tensor_split(input=x, indices=(1, 2), dim=0),
    "masked_select": lambda x, i: torch.masked_select(input=x, mask=x > 0),
}


class Called(nn.Module):
    def __init__(self, function: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, i: Tensor) -> Any:
        return self.function(x, i)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_by_names_is_captured_at_once_and_right(name: str) -> None:
    inputs = [(torch.randn(n, 4, generator=torch.Generator().manual_seed(n)), torch.arange(n)) for n in (5, 8, 3)]
    log, model = Log(), Called(CALLS[name])
    results = run_exported(model, inputs, dynamic_shapes=({0: "n"}, {0: "n"}), log=log)
    assert not [finding for finding in log.findings if finding.rule is rules.CAPTURE_FELL_BACK]
    for each, found in zip(inputs, results, strict=True):
        assert_same(found, pytree.tree_leaves(model(*each)))
