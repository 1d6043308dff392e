"""Control flow and random choices inside of a training step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn, optim
from torch._higher_order_ops import map as mapped
from torch._higher_order_ops import scan

from fxport import ExportError
from fxport.exporter.training import export_training_step
from fxport.exporter.training.seeded import SeededRandom
from tests.training import assert_teacher_forced, fed, opened


class Net(nn.Module):
    """Two layers, of which rows use the first inside of a branch or a body."""

    def __init__(self, forward: Callable[[nn.Linear, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 1)
        self.inside = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.inside(self.first, x)).square().mean()


def branch(layer: nn.Linear, x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda y: layer(y).tanh(), lambda y: layer(y).sin() * 2, (x,))


def scanned(layer: nn.Linear, x: Tensor) -> Tensor:
    def turn(carried: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        after = layer(carried + row).tanh()
        return after, after * 2

    return scan(turn, torch.zeros_like(x[0]), x)[1]


def each_row(layer: nn.Linear, x: Tensor) -> Tensor:
    return mapped(lambda row: layer(row).tanh(), x)  # pyright: ignore[reportArgumentType]  # operands are optional


def repeated(layer: nn.Linear, x: Tensor) -> Tensor:
    def body(turn: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return turn + 1, (y * 1.5).sin()

    begun = torch.tensor(0), layer(x).detach()
    return layer(x) + torch.while_loop(lambda turn, _: turn < 3, body, begun)[1]


def loss_of(model: nn.Module, x: Tensor) -> Tensor:
    return model(x)


@pytest.mark.parametrize("inside", [branch, scanned, each_row, repeated])
def test_control_flow_is_differentiated(inside: Callable[[nn.Linear, Tensor], Tensor], tmp_path: Path) -> None:
    """Batches of both signs, so that a branch is taken each."""
    model, x = Net(inside), torch.rand(5, 6)
    before = model.first.weight.detach().clone()
    assert_teacher_forced(model, optim.SGD(model.parameters(), lr=0.1), loss_of, [(x,), (-x,)], tmp_path, steps=2)
    assert not torch.allclose(model.first.weight, before, rtol=0, atol=1e-3)


def shuffled(layer: nn.Linear, x: Tensor) -> Tensor:
    return layer(x[torch.randperm(x.shape[0])]) * torch.arange(x.shape[0])[:, None]


def scaled_at_random(layer: nn.Linear, x: Tensor) -> Tensor:
    return layer(x) * torch.randint(1, 5, (x.shape[0], 1)) + torch.randint(3, (6,))


def chosen(layer: nn.Linear, x: Tensor) -> Tensor:
    shares = torch.arange(1.0, 6.0)
    return layer(x[torch.multinomial(shares, 3)]) + layer(x[torch.multinomial(shares, 3, replacement=True)]) * 2


def waited(layer: nn.Linear, x: Tensor) -> Tensor:
    return layer(x) * torch.empty_like(x).exponential_(2.0)


def attended(layer: nn.Linear, x: Tensor) -> Tensor:
    """Attention is fused in eager PyTorch, where its operator may draw, but does not."""
    y = layer(x)[None, None]
    return nn.functional.scaled_dot_product_attention(y, y, y)[0, 0] * torch.rand(6)


@pytest.mark.parametrize("inside", [shuffled, scaled_at_random, chosen, waited, attended])
def test_random_choices_are_those_of_the_seed(inside: Callable[[nn.Linear, Tensor], Tensor], tmp_path: Path) -> None:
    model, x = Net(inside), torch.randn(5, 6)
    session = opened(export_training_step(model, optim.SGD(model.parameters(), lr=0.0), loss_of, (x,)), tmp_path)
    losses = [float(session.step(fed(("x",), (x,)))["loss"]) for _ in range(3)]
    wanted = []
    for seed in range(3):
        with SeededRandom(torch.tensor(seed)):
            wanted.append(model(x).item())
    assert losses == pytest.approx(wanted, rel=1e-5)
    assert len(set(losses)) == 3


def test_choices_are_as_likely_as_they_should_be() -> None:
    with SeededRandom(torch.tensor(1)):
        shares = torch.tensor([1.0, 2.0, 5.0]).expand(4000, 3)
        first = torch.multinomial(shares, 2)
        again = torch.multinomial(shares, 1, replacement=True)
        whole = torch.randint(-2, 2, (8000,))
        waits = torch.empty(8000).exponential_(4.0)
        order = torch.randperm(50)
    for drawn in (first[:, 0], again[:, 0]):
        torch.testing.assert_close(drawn.bincount() / 4000, shares[0] / 8, atol=0.02, rtol=0)
    assert (first[:, 0] != first[:, 1]).all()
    torch.testing.assert_close((whole + 2).bincount() / 8000, torch.full((4,), 0.25), atol=0.02, rtol=0)
    assert abs(waits.mean().item() - 0.25) < 0.01
    assert order.sort().values.equal(torch.arange(50))


def test_a_random_op_without_a_seed_is_said() -> None:
    def drawn(layer: nn.Linear, x: Tensor) -> Tensor:
        return layer(x) * torch.poisson(x.abs())

    model = Net(drawn)
    with pytest.raises(ExportError, match="draws random numbers that no seed gives"):
        export_training_step(model, optim.SGD(model.parameters(), lr=0.1), loss_of, (torch.randn(5, 6),))
