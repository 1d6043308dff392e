"""Branches and loops on data in a training step, and what is refused of their gradients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim

from fxport import ExportError
from fxport.exporter.training import export_training_step
from tests.training import assert_teacher_forced


class Chosen(nn.Module):
    """Reads the same variable in each arm, and gives it another value."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        if y.sum() > 0:
            y = y.tanh()
            y = y * 2
        elif y.mean() > -0.05:
            y = y.relu() + y.detach()
        return y


def squares(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).pow(2).mean()


def of_the_loss(model: nn.Module, x: Tensor) -> Tensor:
    loss = model(x).pow(2).mean()
    if loss > 0.5:
        loss = loss * 0.5
    return loss


def of_sums(model: nn.Module, x: Tensor) -> Tensor:
    """One arm's gradient is that of a sum, an expanded tensor."""
    y = model(x)
    return y.pow(2).sum() if y[0].sum() > 0 else y.sum() * -1


def by_while(model: nn.Module, x: Tensor) -> Tensor:
    y = model(x)
    size = y.norm()
    while size > 0.1:
        size = size * 0.3
        y = y * 0.3
    return (y - 1).pow(2).mean()


@pytest.mark.parametrize(
    ("make", "loss"),
    [(Chosen, squares), *((lambda: nn.Linear(4, 3), loss) for loss in (of_the_loss, of_sums, by_while))],
)
def test_a_step_takes_the_arm_that_its_data_choose(make: Any, loss: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = make()
    data = [(torch.randn(n, 4) * scale,) for n, scale in ((6, 1.0), (1, 2.0), (9, 0.2), (3, 4.0))]
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    assert_teacher_forced(model, optimizer, loss, data, tmp_path, steps=12, dynamic_shapes=({0: "n"},))


def penalized(first: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def loss(model: nn.Module, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_(True)
        y = first(model(x))
        (gradient,) = torch.autograd.grad(y, x, create_graph=True)
        return y + gradient.pow(2).sum()

    return loss


def cubed(y: Tensor) -> Tensor:
    total = y.sum()
    return total * total * total if total > 0 else -total * total


def test_a_gradient_of_the_gradient_of_a_branch_is_refused_at_its_line() -> None:
    model = nn.Linear(4, 3)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ExportError, match="differentiates a branch or a loop twice") as caught:
        export_training_step(model, optimizer, penalized(cubed), (torch.randn(6, 4),))
    assert "create_graph=True" in str(caught.value)


def test_the_cure_of_that_is_right(tmp_path: Path) -> None:
    model = nn.Linear(4, 3)

    def chosen(y: Tensor) -> Tensor:
        total = y.sum()
        return torch.where(total > 0, total**3, -total * total)

    data = [(torch.randn(n, 4) * 0.3,) for n in (6, 2)]
    optimizer = optim.SGD(model.parameters(), lr=0.001)
    assert_teacher_forced(model, optimizer, penalized(chosen), data, tmp_path, steps=6, dynamic_shapes=({0: "n"},))
