"""Arms of an `if` on data in a training step: what autograd is told within them, and what they write to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim
from torch.nn.functional import relu

from fxport import ExportError
from fxport.diagnostics import rules
from fxport.exporter.training import export_training_step
from tests.training import assert_teacher_forced

DATA = [
    (torch.randn(n, 4, generator=torch.Generator().manual_seed(n)) * scale + mean,)
    for n, scale, mean in ((6, 1.0, 1.0), (2, 1.0, -2.0), (9, 0.1, 0.0), (3, 2.0, 1.0), (2, 0.1, -0.02), (5, 0.2, -0.1))
]


class Net(nn.Module):
    """Layers that all get a gradient in each step, and what is done with them."""

    count: Tensor
    mean: Tensor

    def __init__(self, inside: Callable[[Net, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.a, self.b, self.c, self.inside = nn.Linear(4, 4), nn.Linear(4, 3), nn.Linear(4, 4), inside
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.c(x) + self.a(x) + 0 * (self.norm.weight + self.norm.bias)
        return self.b(self.inside(self, x, y))


def loss(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).pow(2).mean()


def with_no_grad(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        with torch.no_grad():
            z = net.a(x).tanh()
        y = y + z
    return y


@torch.no_grad()
def taught(net: Net, x: Tensor) -> Tensor:
    return net.a(x).tanh()


def decorated(net: Net, x: Tensor, y: Tensor) -> Tensor:
    return y + (taught(net, x) if x.sum() > 0 else net.c(x).sin())


def switched(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        torch.set_grad_enabled(False)
        z = net.a(x).tanh()
        torch.set_grad_enabled(True)
        y = y + z
    return y


def straight_through(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        with torch.no_grad():
            rest = y.round() - y
        y = y + rest
    return y


def recorded_again(net: Net, x: Tensor, y: Tensor) -> Tensor:
    with torch.no_grad():
        if x.sum() > 0:
            with torch.enable_grad():
                z = net.a(x).tanh()
        else:
            z = net.a(x)
    return y + z


def with_history(net: Net, x: Tensor, y: Tensor) -> Tensor:
    with torch.no_grad():
        z = net.a(x)
        if x.sum() > 0:
            z = y
    return y + z


class Sevenfold(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0] * 7 * ctx.saved_tensors[0].sigmoid()


def by_function(net: Net, x: Tensor, y: Tensor) -> Tensor:
    return y + Sevenfold.apply(net.a(x)) if x.sum() > 0 else y


def by_hook(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        z = net.a(x)
        z.register_hook(lambda gradient: gradient * 3)
        y = y + z.tanh()
    return y


def detached_in_place(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        z = net.a(x)
        z.detach_()
        y = y + z.tanh()
    return y


def gradient_within(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        point = x.detach().requires_grad_()
        y = y + torch.autograd.grad(net.a(point).tanh().sum(), point)[0]
    return y


def in_a_turn(net: Net, x: Tensor, y: Tensor) -> Tensor:
    for row in x:
        if row.sum() > 0:
            with torch.no_grad():
                z = net.a(row).tanh()
            y = y + z
    return y


def in_an_arm(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        if x.mean() > 0.2:
            with torch.no_grad():
                z = net.a(x).tanh()
            y = y + z
        else:
            y = y * net.a(x)
    return y


def written_without_gradient(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        z = net.a(x)
        with torch.no_grad():
            z.mul_(2).add_(net.a.weight.sum())
        y = y + z
    return y


TOLD = (
    *(with_no_grad, decorated, switched, straight_through, recorded_again, with_history, by_function, by_hook),
    *(detached_in_place, gradient_within, in_a_turn, in_an_arm, written_without_gradient),
)


def counted(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        net.count.add_(1)
    return y


def assigned(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if y.mean() > 0:
        net.mean = 0.9 * net.mean + 0.1 * y.detach().mean(0)
    return y


def averaged(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        with torch.no_grad():
            net.mean.lerp_(y.mean(0), 0.1)
    return y * (1 + net.mean)


def normalized(net: Net, x: Tensor, y: Tensor) -> Tensor:
    return net.norm(y) if x.sum() > 0 else y


def weight_scaled(net: Net, x: Tensor, y: Tensor) -> Tensor:
    """The weight is read behind it alone: autograd has no other value of it."""
    if x.sum() > 0:
        with torch.no_grad():
            net.b.weight.mul_(0.9)
    return y


def column(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        y[:, 0] = 0
    return y


def clamped(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        y[y > 0.3] = 0.25
    return y * 2


def by_argument(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        relu(y, inplace=True)
    return y * 2


def view_of_outside(net: Net, x: Tensor, y: Tensor) -> Tensor:
    part = y[:, 1]
    if x.sum() > 0:
        y.mul_(2)
        y = y + part[:, None]
    return y


def view_within(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        part = y[:, 1]
        part.mul_(2)
    return y


def by_data(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        y.data.mul_(2)
    return y + y


def in_both(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        y.mul_(2)
        if x.mean() > 0.3:
            y.add_(net.a(x))
        y.sin_()
    return y


def in_the_inner_one(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:  # noqa: SIM102  # a branch within a branch
        if x.mean() > 0.3:
            y.add_(net.a(x))
    return y


def in_an_arm_of_a_turn(net: Net, x: Tensor, y: Tensor) -> Tensor:
    while x.norm() > 1.5:
        x = x * 0.5
        if x.sum() > 0:
            y.mul_(0.9)
    return y


WRITES = (
    *(counted, assigned, averaged, normalized, weight_scaled, column, clamped, by_argument, view_of_outside),
    *(view_within, by_data, in_both, in_the_inner_one, in_an_arm_of_a_turn),
)


@pytest.mark.parametrize("inside", [*TOLD, *WRITES])
def test_an_arm_does_what_it_does_in_eager_pytorch(
    inside: Callable[[Net, Tensor, Tensor], Tensor], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = Net(inside)
    optimizer = optim.SGD(model.parameters(), lr=0.005)
    assert_teacher_forced(model, optimizer, loss, DATA, tmp_path, steps=7, dynamic_shapes=({0: "n"},))


def hook_of_outside(net: Net, x: Tensor, y: Tensor) -> Tensor:
    if x.sum() > 0:
        y.register_hook(lambda gradient: gradient * 3)  # here
        y = y * 2
    return y


def history_of_outside(net: Net, x: Tensor, y: Tensor) -> Tensor:
    for _ in x:
        y.detach_()  # here
        y = y * 2
    return y


@pytest.mark.parametrize("inside", [hook_of_outside, history_of_outside])
def test_what_would_reach_beyond_the_arm_is_refused_at_its_line(
    inside: Callable[[Net, Tensor, Tensor], Tensor],
) -> None:
    model = Net(inside)
    with pytest.raises(ExportError, match="a tensor of outside") as raised:
        export_training_step(model, optim.SGD(model.parameters(), lr=0.1), loss, DATA[0], dynamic_shapes=({0: "n"},))
    (finding,) = raised.value.log.findings
    assert finding.place is not None
    assert "# here" in Path(__file__).read_text("utf-8").splitlines()[finding.place.line - 1]
    assert "Do it before" in finding.fixes[0].description


def hooked_before(net: Net, x: Tensor, y: Tensor) -> Tensor:
    """Register the hook before the branch, as the refusal advises."""
    decides = x.sum() > 0
    y.register_hook(lambda gradient: torch.where(decides, gradient * 3, gradient))
    return y * 2 if decides else y


def test_the_cure_of_that_is_right(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Net(hooked_before)
    optimizer = optim.SGD(model.parameters(), lr=0.005)
    assert_teacher_forced(model, optimizer, loss, DATA, tmp_path, steps=7, dynamic_shapes=({0: "n"},))


class Unused(nn.Module):
    def __init__(self, *, is_loop: bool) -> None:
        super().__init__()
        self.a, self.b, self.is_loop = nn.Linear(4, 4), nn.Linear(4, 4), is_loop

    def forward(self, x: Tensor) -> Tensor:
        y = self.b(x)
        if self.is_loop:
            for row in x:
                y = y + taught_by(self.a, row)
        elif x.sum() > 0:
            y = y + taught_by(self.a, x)
        return y


@torch.no_grad()
def taught_by(layer: nn.Module, x: Tensor) -> Tensor:
    return layer(x).tanh()


@pytest.mark.parametrize("is_loop", [False, True])
def test_what_only_no_grad_reads_has_no_gradient(is_loop: bool) -> None:
    """Eager PyTorch leaves it out of each update, however large momentum and weight decay are."""
    model = Unused(is_loop=is_loop)
    with pytest.raises(ExportError) as raised:
        export_training_step(model, optim.SGD(model.parameters(), lr=0.1), loss, DATA[0], dynamic_shapes=({0: "n"},))
    names = {each.facts["name"] for each in raised.value.log.findings if each.rule is rules.GRADIENT_MISSING}
    assert names == {"a.weight", "a.bias"}
