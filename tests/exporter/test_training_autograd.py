"""What autograd does beside computing gradients is in the exported step. Each row differs from its model without it."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import nn, optim
from torch.autograd import graph
from torch.utils.checkpoint import checkpoint

from fxport import ExportError
from fxport.exporter.training import export_training_step
from tests.training import assert_teacher_forced, fed, opened


class Plain(nn.Module):
    """Two layers and a statistic; rows change what `forward` does. Without `on` they do nothing special."""

    def __init__(self, on: bool) -> None:
        super().__init__()
        self.on = on
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 1)
        self.seen: torch.Tensor
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.first(x)))

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.second(hidden).square().mean()


def coarse(x: torch.Tensor) -> torch.Tensor:
    return (x * 4).round() / 4


class PacksCoarsely(Plain):
    """What is saved for backward is rounded on its way."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hooks = graph.saved_tensors_hooks(coarse, lambda packed: packed + 0.125)
        with hooks if self.on else nullcontext():
            return super().forward(x)


class PacksToBytes(Plain):
    """What is saved for backward becomes whole numbers and their scale, in a tuple."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def pack(saved: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            scale = saved.abs().amax() / 7  # as coarse as four bits are
            return (saved / scale).round().to(torch.int8), scale

        hooks = graph.saved_tensors_hooks(pack, lambda packed: packed[0].float() * packed[1])
        with hooks if self.on else nullcontext():
            return super().forward(x)


class Overwrites(Plain):
    """Writes over a value that backward needs; only the context around it keeps the old one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x).exp()
        return self.head(hidden.add_(1).log())


class PenalizesAnEdge(Plain):
    """The loss has the gradient with respect to a place in the graph in it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(x))
        edge = graph.get_gradient_edge(hidden)
        loss = self.head(hidden)
        if not self.on:
            return loss
        return loss + torch.autograd.grad(loss, edge, create_graph=True)[0].square().sum()


class WatchesGradients(Plain):
    """A hook on several tensors keeps a mean of their gradients in a buffer."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(x))
        later = hidden * 2

        def watch(gradients: Any) -> None:
            self.seen.mul_(0.9).add_(sum(gradient.sum(0) for gradient in gradients))

        if self.on:
            graph.register_multi_grad_hook((hidden, later), watch)
        return self.head(later)


class WatchesAnyGradient(Plain):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(x))

        def keep(gradient: torch.Tensor) -> None:
            self.seen.copy_(gradient.sum(0))

        if self.on:
            graph.register_multi_grad_hook((hidden,), keep, mode="any")
        return self.head(hidden)


class HooksATensor(Plain):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(x))
        if self.on:
            hidden.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))
        return self.head(hidden)


class HooksANode(Plain):
    """A hook before or after a step of backward."""

    def __init__(self, register: str, hook: Callable[..., Any], on: bool) -> None:
        super().__init__(on)
        self.register, self.hook = register, hook

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(x))
        if self.on:
            getattr(hidden.grad_fn, self.register)(self.hook)
        return self.head(hidden)


class HooksAParameter(Plain):
    """A hook on a parameter itself, which stands for ever."""

    def __init__(self, register: str, hook: Callable[..., Any], on: bool) -> None:
        super().__init__(on)
        if on:
            getattr(self.first.weight, register)(hook)


def halve(parameter: torch.Tensor) -> None:
    assert parameter.grad is not None
    parameter.grad.mul_(0.5)


class HooksAModule(Plain):
    """A hook of the last layer, which changes what it sees."""

    def __init__(self, register: str, hook: Callable[..., Any], on: bool) -> None:
        super().__init__(on)
        if on:
            getattr(self.second, register)(hook)


class PenalizesASlope(Plain):
    """The slope of the loss in its input, so that the step has second derivatives."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        loss = super().forward(x)
        if not self.on:
            return loss
        slope = torch.autograd.grad(loss, x, create_graph=True)[0]
        return loss + (slope.norm(dim=-1) - 1).square().mean()


class Rounding(torch.autograd.Function):
    """Rounds; its gradient, of which it keeps a tensor, is none that autograd would find."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return coarse(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]  # torch declares *args
        (x,) = ctx.saved_tensors
        return grad * (x.abs() < 0.9) * 2


class RoundsStraightThrough(Plain):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(x))
        return self.head(cast("torch.Tensor", Rounding.apply(hidden)) if self.on else hidden)


ROWS: dict[str, tuple[Callable[[bool], Plain], Callable[[], AbstractContextManager[Any]]]] = {
    "saved-tensor hooks": (PacksCoarsely, nullcontext),
    "saved-tensor hooks of another type": (PacksToBytes, nullcontext),
    "saved-tensor hooks around the step": (Plain, partial(graph.saved_tensors_hooks, coarse, coarse)),
    "save_on_cpu": (Overwrites, graph.save_on_cpu),
    "allow_mutation_on_saved_tensors": (Overwrites, graph.allow_mutation_on_saved_tensors),
    "gradient edge": (PenalizesAnEdge, nullcontext),
    "multi-grad hook": (WatchesGradients, nullcontext),
    "multi-grad hook, any": (WatchesAnyGradient, nullcontext),
    "tensor hook": (HooksATensor, nullcontext),
    "prehook of a node": (
        partial(HooksANode, "register_prehook", lambda incoming: (coarse(incoming[0] * 20) / 20,)),
        nullcontext,
    ),
    "hook of a node": (
        partial(HooksANode, "register_hook", lambda outgoing, incoming: (outgoing[0] * 3,)),
        nullcontext,
    ),
    "hook of a parameter": (partial(HooksAParameter, "register_hook", lambda gradient: gradient * 2), nullcontext),
    "post-accumulate hook": (partial(HooksAParameter, "register_post_accumulate_grad_hook", halve), nullcontext),
    "prehook of a module": (
        partial(HooksAModule, "register_forward_pre_hook", lambda module, args: (args[0] + 0.1,)),
        nullcontext,
    ),
    "hook of a module": (
        partial(HooksAModule, "register_forward_hook", lambda module, args, output: output * 1.1),
        nullcontext,
    ),
    "backward prehook of a module": (
        partial(HooksAModule, "register_full_backward_pre_hook", lambda module, outgoing: (outgoing[0] * 2,)),
        nullcontext,
    ),
    "backward hook of a module": (
        partial(HooksAModule, "register_full_backward_hook", lambda module, incoming, _: (incoming[0] * 0.5 + 0.01,)),
        nullcontext,
    ),
    "double backward": (PenalizesASlope, nullcontext),
    "autograd.Function": (RoundsStraightThrough, nullcontext),
}


def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x)


def sgd(model: nn.Module) -> optim.Optimizer:
    return optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def eager(model: nn.Module, x: torch.Tensor, context: Callable[[], AbstractContextManager[Any]]) -> torch.Tensor:
    """What `assert_teacher_forced` looks at after one step of eager PyTorch, in one tensor."""
    optimizer = sgd(model)
    with context():
        loss = model(x)
        loss.backward()
    optimizer.step()
    held = (value for entries in optimizer.state.values() for value in entries.values())
    return torch.cat([each.detach().reshape(-1) for each in (loss, *model.buffers(), *model.parameters(), *held)])


def assert_far(a: torch.Tensor, b: torch.Tensor) -> None:
    """Farther apart than `assert_teacher_forced` lets pass, by so much that no rounding hides it."""
    assert not torch.allclose(a, b, rtol=1e-3, atol=1e-3)


def same_weights(build: Callable[[bool], Plain], on: bool) -> Plain:
    torch.manual_seed(1)
    return build(on)


@pytest.mark.parametrize("name", ROWS)
def test_the_step_does_what_autograd_does(name: str, tmp_path: Path) -> None:
    build, context = ROWS[name]
    data = [(torch.randn(5, 6),) for _ in range(2)]
    want = eager(same_weights(build, True), data[0][0], context)
    if build is Overwrites:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            eager(same_weights(build, False), data[0][0], nullcontext)
    else:
        without = eager(same_weights(build, False), data[0][0], nullcontext)
        assert_far(want, without)
    model = same_weights(build, True)
    assert_teacher_forced(model, sgd(model), loss_of, data, tmp_path, steps=3, context=context)


class Checkpointed(nn.Module):
    """A part that backward computes again, in eager PyTorch with a second count of the batch's statistics."""

    def __init__(self, reentrant: bool | None) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.part = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Tanh())
        self.first, self.head = nn.Linear(6, 8), nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        if self.reentrant is not None:
            hidden = checkpoint(self.part, hidden, use_reentrant=self.reentrant)
        else:
            hidden = self.part(hidden)
        return self.head(hidden).square().mean()


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_activations(reentrant: bool, tmp_path: Path) -> None:
    model, data = Checkpointed(reentrant), [(torch.randn(5, 6),)]
    plain = copy.deepcopy(model)
    plain.reentrant = None
    assert_far(eager(copy.deepcopy(model), *data[0], nullcontext), eager(plain, *data[0], nullcontext))
    assert_teacher_forced(model, sgd(model), loss_of, data, tmp_path, steps=3)


def test_a_checkpoint_drops_out_what_its_plain_twin_does(tmp_path: Path) -> None:
    """Eager PyTorch draws a checkpoint's mask again from a generator of its own; here the mask is drawn once."""
    torch.manual_seed(2)
    model, data = Checkpointed(False), (torch.randn(5, 6),)
    model.part = nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 8))
    states = []
    for reentrant in (True, False, None):
        model.reentrant = reentrant
        program = export_training_step(model, optim.SGD(model.parameters(), lr=0.1), loss_of, data)
        session = opened(program, tmp_path)
        session.step(fed(("x",), data))
        states.append(session.state())
    for name, want in states[-1].items():
        for state in states[:-1]:
            np.testing.assert_allclose(state[name], want, rtol=1e-6)


def clamp_gradients(optimizer: optim.Optimizer, args: Any, kwargs: Any) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad.clamp_(-1e-3, 1e-3)


def clamp_parameters(optimizer: optim.Optimizer, args: Any, kwargs: Any) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.clamp_(-0.1, 0.1)


def test_the_slope_of_a_convolution_with_a_dynamic_batch(tmp_path: Path) -> None:
    """The gradient of its gradient convolves over the batch, whose size is then one of channels."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(64, 1))

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        y = model(x).sum()
        slope = torch.autograd.grad(y, x, create_graph=True)[0]
        return y + (slope.flatten(1).norm(dim=1) - 1).square().mean()

    data = [(torch.randn(size, 1, 4, 4),) for size in (3, 5)]
    shapes = ({0: "batch"},)
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    assert_teacher_forced(model, optimizer, loss, data, tmp_path, steps=3, dynamic_shapes=shapes)


@pytest.mark.parametrize(
    ("register", "hook"),
    [("register_step_pre_hook", clamp_gradients), ("register_step_post_hook", torch.no_grad()(clamp_parameters))],
)
def test_hooks_around_the_step_of_the_optimizer(register: str, hook: Any, tmp_path: Path) -> None:
    model = Plain(True)
    twin = copy.deepcopy(model)
    optimizer, plain = (optim.SGD(each.parameters(), lr=0.1) for each in (model, twin))
    getattr(optimizer, register)(hook)
    data = [(torch.randn(5, 6),)]
    loss_of(twin, *data[0]).backward()
    plain.step()
    assert_teacher_forced(model, optimizer, loss_of, data, tmp_path, steps=1)
    assert_far(model.first.weight, twin.first.weight)


def test_an_optimizer_inside_of_backward_is_said() -> None:
    model = Plain(True)

    def update(parameter: torch.Tensor) -> None:
        parameter.grad = None

    model.first.weight.register_post_accumulate_grad_hook(update)
    with pytest.raises(ExportError, match="takes a parameter's gradient away"):
        export_training_step(model, optim.SGD(model.parameters(), lr=0.1), loss_of, (torch.randn(5, 6),))


class CutsOff(Plain):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.first(x)).detach())


def test_a_parameter_without_a_gradient_is_an_error_at_its_line() -> None:
    model = CutsOff(True)
    with pytest.raises(ExportError) as raised:
        export_training_step(model, optim.SGD(model.parameters(), lr=0.1), loss_of, (torch.randn(5, 6),))
    found = [each for each in raised.value.log.findings if each.rule.id == "FXP1015"]
    lines, start = inspect.getsourcelines(CutsOff)
    assert {each.facts["name"] for each in found} == {"first.weight", "first.bias"}
    for each in found:
        assert each.place is not None
        assert each.place.path == __file__
        assert "self.first(x)" in lines[each.place.line - start]
