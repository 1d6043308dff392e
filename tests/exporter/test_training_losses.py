"""Losses whose gradient PyTorch traces by decompositions of its own, some of which are wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn, optim
from torch.nn.functional import multi_margin_loss, multilabel_margin_loss

from tests.training import assert_teacher_forced, batches

DATA = batches(6, 3)
ROWS = ({0: "batch"}, {0: "batch"})


def labels(y: Tensor) -> Tensor:
    """One or two labels of four, then -1, and behind it what counts for nothing."""
    second = torch.where(y > 1, (y + 1) % 4, -1)
    return torch.stack([y, second, torch.full_like(y, -1), (y + 2) % 4], 1)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_labels_behind_the_first_missing_one_count_for_nothing(reduction: str, tmp_path: Path) -> None:
    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return multilabel_margin_loss(model(x), labels(y), reduction=reduction).sum()

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 4))
    assert_teacher_forced(
        model, optim.SGD(model.parameters(), lr=0.1), loss, DATA, tmp_path, steps=4, dynamic_shapes=ROWS
    )


def test_a_margin_for_one_label(tmp_path: Path) -> None:
    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return multi_margin_loss(model(x), y, p=2, margin=0.5, weight=torch.tensor([1.0, 2.0, 0.5, 1.5]))

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 4))
    assert_teacher_forced(
        model, optim.SGD(model.parameters(), lr=0.1), loss, DATA, tmp_path, steps=4, dynamic_shapes=ROWS
    )


@pytest.mark.parametrize("op", [torch.cov, torch.corrcoef])
def test_a_covariance_is_differentiated(op: Callable[[Tensor], Tensor], tmp_path: Path) -> None:
    """As variance-invariance-covariance regularization has it: https://arxiv.org/abs/2105.04906."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return op(model(x).T).square().sum() + 0 * y.sum()

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 4))
    assert_teacher_forced(
        model, optim.SGD(model.parameters(), lr=0.1), loss, DATA, tmp_path, steps=4, dynamic_shapes=ROWS
    )
