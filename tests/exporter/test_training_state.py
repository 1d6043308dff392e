"""The model's own tensors, where a step reaches them past the model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim

from fxport.diagnostics import rules
from fxport.exporter.pipeline.errors import ExportError
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


class Taught(nn.Module):
    """A frozen teacher, which a hook moves towards the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.teacher = nn.Linear(6, 3), nn.Linear(6, 3).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.teacher(x).tanh()


@torch.no_grad()
def lerped(slow: Tensor, fast: Tensor) -> None:
    slow.lerp_(fast, 0.1)


def averaged_by_data(slow: Tensor, fast: Tensor) -> None:
    """PyTorch does not count such a write."""
    slow.data.mul_(0.9).add_(fast.data, alpha=0.1)


@torch.no_grad()
def set_to_other_memory(slow: Tensor, fast: Tensor) -> None:
    slow.set_(0.9 * slow + 0.1 * fast)


def taught(write: Callable[[Tensor, Tensor], None], where: str) -> Parts:
    """The teacher follows the layer before or after the update, in a hook of a gradient, or in the loss."""
    model = Taught()
    optimizer = optim.SGD(model.layer.parameters(), lr=0.1)

    def follow(*_: Any) -> None:
        for slow, fast in zip(model.teacher.parameters(), model.layer.parameters(), strict=True):
            write(slow, fast)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        if where == "loss":
            follow()
        return classify(model, x, y)

    if where == "before the update":
        optimizer.register_step_pre_hook(follow)
    elif where == "after the update":
        optimizer.register_step_post_hook(follow)
    elif where == "gradient":
        model.layer.bias.register_hook(follow)
    return model, optimizer, loss


TEACHERS: dict[str, Callable[[], Parts]] = {
    f"a teacher {write.__name__}, {where}": partial(taught, write, where)
    for write in (lerped, averaged_by_data, set_to_other_memory)
    for where in ("before the update", "after the update", "gradient", "loss")
}

PARTS: dict[str, Callable[[], Parts]] = {
    **TEACHERS,
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


def test_other_memory_given_in_a_hook_of_a_gradient_is_refused_at_its_line() -> None:
    def rebind(slow: Tensor, fast: Tensor) -> None:
        slow.data = 0.9 * slow.data + 0.1 * fast.data  # this line

    model, optimizer, loss = taught(rebind, "gradient")
    with pytest.raises(ExportError) as failure:
        export_training_step(model, optimizer, loss, DATA[0])
    (finding,) = failure.value.log.findings
    assert finding.rule is rules.UNSUPPORTED_PYTHON_CONSTRUCT
    assert finding.place is not None
    assert "# this line" in Path(finding.place.path).read_text().splitlines()[finding.place.line - 1]


def test_an_eager_call_of_the_step_leaves_its_state_as_it_is() -> None:
    program = export_training_step(*frozen_ones_follow(), DATA[0])
    before = {name: value.clone() for name, value in program.state.items()}
    assert not torch.equal(program.second_call[0]["param/slow.weight"], before["param/slow.weight"])
    torch.testing.assert_close(dict(program.state), before, rtol=0, atol=0)


class Same(optim.SGD):
    """Has the step of its base, as AdamW has that of Adam; PyTorch wraps it as soon as there is one of the base."""


def test_hooks_of_an_optimizer_run_once_where_its_step_is_that_of_its_base(tmp_path: Path) -> None:
    optim.SGD([torch.zeros(1)], lr=0.1)
    model = Taught()
    model.register_buffer("updates", torch.zeros(()))
    optimizer = Same(model.layer.parameters(), lr=0.1)
    optimizer.register_step_post_hook(lambda *_: model.updates.add_(1))
    assert_teacher_forced(model, optimizer, classify, DATA, tmp_path, steps=3)
