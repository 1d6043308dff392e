"""Branches and loops on data in a training step, and what is refused of their gradients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim
from torch.nn.functional import dropout

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


def by_while_without_a_turn(model: nn.Module, x: Tensor) -> Tensor:
    """Small rows take none."""
    y = model(x)
    while y.norm() > 1.5:
        y = y * 0.3
    return (y - 1).pow(2).mean()


class Repeated(nn.Module):
    """Calls a layer as often as the data tell: before the first turn nothing asks for a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.turned, self.linear = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        turns = 0
        while x.norm() > 1.5:
            x = 0.7 * x - 0.2 * self.turned(x).tanh()
            turns = turns + 1
        return self.linear(x) / (1 + turns)


LOSSES = (of_the_loss, of_sums, by_while, by_while_without_a_turn)


@pytest.mark.parametrize(
    ("make", "loss"),
    [
        (Chosen, squares),
        *((lambda: nn.Linear(4, 3), loss) for loss in LOSSES),
    ],
)
def test_a_step_takes_the_arm_that_its_data_choose(make: Any, loss: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = make()
    data = [(torch.randn(n, 4) * scale,) for n, scale in ((6, 1.0), (1, 2.0), (9, 0.2), (3, 4.0))]
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    assert_teacher_forced(model, optimizer, loss, data, tmp_path, steps=12, dynamic_shapes=({0: "n"},))


def test_gradients_go_through_all_turns_that_call_a_layer(tmp_path: Path) -> None:
    """Without momentum: eager PyTorch leaves out the update of a layer that no turn has called."""
    torch.manual_seed(0)
    model = Repeated()
    data = [(torch.randn(n, 4) * scale,) for n, scale in ((6, 1.0), (1, 2.0), (9, 0.2), (3, 4.0))]
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    assert_teacher_forced(model, optimizer, squares, data, tmp_path, steps=8, dynamic_shapes=({0: "n"},))


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
    torch.manual_seed(0)
    model = nn.Linear(4, 3)

    def chosen(y: Tensor) -> Tensor:
        total = y.sum()
        return torch.where(total > 0, total**3, -total * total)

    data = [(torch.randn(n, 4) * 0.3,) for n in (6, 2)]
    optimizer = optim.SGD(model.parameters(), lr=1e-6)
    assert_teacher_forced(model, optimizer, penalized(chosen), data, tmp_path, steps=6, dynamic_shapes=({0: "n"},))


def dropped_in_arm(model: nn.Module, x: Tensor) -> Tensor:
    y = model(x)
    if y.sum() > 0:
        y = dropout(y, 0.5)  # here
    return y.pow(2).mean()


def dropped_in_turn(model: nn.Module, x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for row in range(x.shape[0]):
        total = total + dropout(model(x[row]), 0.5)  # here
    return total.pow(2).mean()


@pytest.mark.parametrize("loss", [dropped_in_arm, dropped_in_turn])
def test_what_an_arm_or_a_turn_draws_is_refused_at_its_line(loss: Any) -> None:
    model = nn.Linear(4, 3)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ExportError) as failure:
        export_training_step(model, optimizer, loss, (torch.randn(5, 4),), dynamic_shapes=({0: "n"},))
    (finding,) = failure.value.log.findings
    assert "draws random numbers in a branch or a loop" in finding.message
    assert "Draw them before it" in finding.fixes[0].description
    assert finding.place is not None
    assert "# here" in Path(__file__).read_text("utf-8").splitlines()[finding.place.line - 1]


def drawn_before_the_arm(model: nn.Module, x: Tensor) -> Tensor:
    y = model(x)
    kept = (torch.rand_like(y) >= 0.5) / 0.5
    if y.sum() > 0:
        y = y * kept
    return y.pow(2).mean()


def drawn_before_the_turns(model: nn.Module, x: Tensor) -> Tensor:
    total = torch.zeros(3)
    kept = (torch.rand(x.shape[0], 3) >= 0.5) / 0.5
    for row in range(x.shape[0]):
        total = total + model(x[row]) * kept[row]
    return total.pow(2).mean()


@pytest.mark.parametrize("loss", [drawn_before_the_arm, drawn_before_the_turns])
def test_the_cure_of_that_follows_the_seed(loss: Any, tmp_path: Path) -> None:
    model = nn.Linear(4, 3)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    data = [(torch.randn(n, 4) + shift,) for n, shift in ((5, 2.0), (3, -2.0))]
    assert_teacher_forced(model, optimizer, loss, data, tmp_path, steps=6, dynamic_shapes=({0: "n"},))
