"""The model's own tensors, where a step reaches them past the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim

from fxport.exporter.training import export_training_step
from tests.training import assert_teacher_forced, batches, classify

Parts = tuple[nn.Module, optim.Optimizer, Callable[..., Tensor]]
DATA = batches(8, 8, 8, shape=(6,), classes=3)


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 3))


def penalized(parameters: Callable[[nn.Module, optim.Optimizer], list[Any]]) -> Parts:
    model = net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    kept = parameters(model, optimizer)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return classify(model, x, y) + 0.1 * sum(each.square().sum() for each in kept)

    return model, optimizer, loss


def hooked_parameter() -> Parts:
    model = net()
    weight = model[0].weight
    weight.register_hook(lambda gradient: gradient + 0.1 * weight.detach())
    return model, optim.SGD(model.parameters(), lr=0.1), classify


def decay_in_hook() -> Parts:
    model = net()
    kept = list(model.parameters())
    optimizer = optim.SGD(kept, lr=0.1)

    def decay(optimizer: optim.Optimizer, *_: Any) -> None:
        for parameter, own in zip(optimizer.param_groups[0]["params"], kept, strict=True):
            parameter.grad.add_(own.detach(), alpha=0.1)

    optimizer.register_step_pre_hook(decay)
    return model, optimizer, classify


def clamped_after_the_step() -> Parts:
    model = net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def clamp(*_: Any) -> None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.clamp_(-0.2, 0.2)

    optimizer.register_step_post_hook(clamp)
    return model, optimizer, classify


def average_in_buffer() -> Parts:
    model = net()
    model.register_buffer("average", model[0].weight.detach().clone())
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_post_hook(lambda *_: model.average.lerp_(model[0].weight.detach(), 0.1))
    return model, optimizer, classify


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        ctx.save_for_backward(weight)
        return weight.square().sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 2 * ctx.saved_tensors[0] * gradient


def function_of_kept() -> Parts:
    model = net()
    kept = model[0].weight

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return classify(model, x, y) + 0.1 * Squared.apply(kept)

    return model, optim.SGD(model.parameters(), lr=0.1), loss


class Momentum(nn.Module):
    """A frozen copy follows the layer, as in MoCo."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.slow = nn.Linear(6, 3), nn.Linear(6, 3).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            for slow, fast in zip(self.slow.parameters(), self.layer.parameters(), strict=True):
                slow.mul_(0.9).add_(fast, alpha=0.1)
        return self.layer(x) + self.slow(x)


def frozen_ones_follow() -> Parts:
    model = Momentum()
    return model, optim.SGD(model.layer.parameters(), lr=0.1), classify


PARTS: dict[str, Callable[[], Parts]] = {
    "a list made before": lambda: penalized(lambda model, _: list(model.parameters())),
    "the optimizer's groups": lambda: penalized(lambda _, optimizer: optimizer.param_groups[0]["params"]),
    "a hook of a parameter": hooked_parameter,
    "a hook before the update": decay_in_hook,
    "a hook that writes": clamped_after_the_step,
    "a hook that writes to a buffer": average_in_buffer,
    "a function of one's own": function_of_kept,
    "frozen parameters that are written to": frozen_ones_follow,
}


@pytest.mark.parametrize("parts", [pytest.param(make, id=name) for name, make in PARTS.items()])
def test_the_models_own_tensors_are_those_of_the_step(parts: Callable[[], Parts], tmp_path: Path) -> None:
    model, optimizer, loss = parts()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    export_training_step(model, optimizer, loss, DATA[0])
    torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)
    assert_teacher_forced(model, optimizer, loss, DATA, tmp_path, steps=6)
