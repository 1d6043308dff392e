"""Ops on a selection `x[mask]`, whose size only the data tells: some of it, none of it, and all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from fxport.diagnostics import Level, Log
from tests.running import assert_same, run_exported


class Selected(nn.Module):
    def __init__(self, of: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.of = of

    def forward(self, x: Tensor, mask: Tensor) -> Any:
        return self.of(x[mask])


FIRST: Any = ([0], [0])
"""For `tensordot`, of which the stubs know no axes."""


def as_images(x: Tensor) -> Tensor:
    return x.view(-1, 1, 2, 2)


ROWS: dict[str, Callable[[Tensor], Any]] = {
    # PyTorch's shape rules ask whether there is an element
    "logsumexp": lambda x: (x.logsumexp(1), x.logsumexp(0)),
    "roll": lambda x: (x.roll(1, 0), x.roll((1, 2), (0, 1)), x.roll(3)),
    "fftshift": lambda x: torch.fft.fftshift(x, 1),
    "pinv": lambda x: torch.linalg.pinv(x.view(-1, 2, 2)),
    "cholesky": lambda x: torch.linalg.cholesky(as_images(x) @ as_images(x).mT + torch.eye(2)),
    "resized": lambda x: F.interpolate(as_images(x), size=(3, 3), mode="bilinear", antialias=True),
    "bilinear": lambda x: F.bilinear(x, x, torch.ones(3, 4, 4)),
    "attention": lambda x: F.scaled_dot_product_attention(as_images(x), as_images(x), as_images(x)),
    # functions of torch.nn.functional ask it, too
    "response": lambda x: F.local_response_norm(x[:, :, None], 3),
    "group_norm": lambda x: F.group_norm(x, 2),
    # PyTorch makes numbers of sizes
    "take_along_dim": lambda x: (
        x.take_along_dim(x.argsort(0), 0),
        torch.take_along_dim(x, torch.tensor([[0, 1]]), 1),
        x.take_along_dim(x.argsort(1)[:, :2], 1),
    ),
    "gradient": lambda x: torch.gradient(x, spacing=0.5, dim=1, edge_order=2),
    "corners": lambda x: (torch.triu_indices(x.size(0), x.size(0), 1), torch.tril_indices(x.size(0), 3)),
    "fill_diagonal": lambda x: ((x @ x.T).fill_diagonal_(2.0), x.clone().fill_diagonal_(3.0)),
    "kron": lambda x: (torch.kron(x, torch.arange(6.0).view(2, 3)), torch.kron(x[:, 0], torch.ones(2, 2))),
    "multi_dot": lambda x: torch.linalg.multi_dot([x, torch.ones(4, 3), torch.ones(3)]),
    "inner": lambda x: (torch.inner(x[:, 0], x[:, 1]), torch.inner(x, torch.arange(4.0))),
    "tensordot": lambda x: (torch.tensordot(x, x, FIRST), torch.tensordot(x, x, 0), torch.tensordot(x, x.T, 1)),
    "tensor_split": lambda x: (x.tensor_split(2), torch.tensor_split(x, torch.tensor([1, 3]), 1)),
}


@pytest.mark.parametrize("row", ROWS)
def test_what_is_selected_is_computed_on(row: str) -> None:
    model, log = Selected(ROWS[row]), Log()
    x = torch.randn(4, 4)
    calls = [(x, torch.tensor(mask, dtype=torch.bool)) for mask in ([1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1])]
    calls.append((torch.randn(2, 4), torch.tensor([False, True])))
    results = run_exported(model, calls, dynamic_shapes={"x": {0: "n"}, "mask": {0: "n"}}, log=log)
    for call, result in zip(calls, results, strict=True):
        assert_same(result, pytree.tree_leaves(model(*call)), tol=(1e-4, 1e-5))
    assert all(finding.level is Level.NOTE for finding in log.findings)


class Padded(nn.Module):
    """The rows of two groups, each filled up to as many as the larger one has, attended to: a number made a size."""

    def forward(self, x: Tensor, group: Tensor) -> Tensor:
        counts = torch.zeros(2, dtype=torch.int64).scatter_add(0, group, torch.ones_like(group))
        most = int(counts.max())
        padded = x.new_zeros(2 * most, 4)
        padded[torch.arange(x.shape[0]) - (counts.cumsum(0) - counts)[group] + group * most] = x
        each = padded.view(2, 1, most, 4)
        return F.scaled_dot_product_attention(each, each, each)


def test_a_number_that_is_made_a_size_is_one() -> None:
    calls = [(torch.randn(len(group), 4), torch.tensor(group)) for group in ([0, 0, 1, 1, 1], [0, 0, 0, 1], [1, 1])]
    results = run_exported(Padded(), calls, dynamic_shapes={"x": {0: "n"}, "group": {0: "n"}})
    for call, result in zip(calls, results, strict=True):
        assert_same(result, (Padded()(*call),), tol=(1e-4, 1e-5))
