"""Parameters that get no gradient in some steps: their optimizer leaves them, or the step is refused at a line."""

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

DATA = [
    (torch.randn(n, 4, generator=torch.Generator().manual_seed(n)) * scale + mean,)
    for n, scale, mean in ((6, 1.0, 1.0), (2, 1.0, -2.0), (9, 0.1, 0.0), (3, 4.0, 1.0), (1, 0.1, -0.02), (5, 0.2, -0.1))
]


class Net(nn.Module):
    """Three layers, and what is done with them."""

    def __init__(self, inside: Callable[[Net, Tensor], Tensor]) -> None:
        super().__init__()
        self.a, self.b, self.c, self.inside = nn.Linear(4, 4), nn.Linear(4, 3), nn.Linear(4, 4), inside

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.inside(self, x))


def loss(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).pow(2).mean()


def two_arms(net: Net, x: Tensor) -> Tensor:
    if x.sum() > 0:
        return net.a(x)
    return net.c(x).tanh()


def one_arm(net: Net, x: Tensor) -> Tensor:
    y = net.c(x)
    if x.sum() > 0:
        y = y + net.a(x)
    return y


def by_expression(net: Net, x: Tensor) -> Tensor:
    return net.a(x) if x.sum() > 0 else net.c(x)


def before_the_arm(net: Net, x: Tensor) -> Tensor:
    """The layer is called in each step, and its result is read in some."""
    y, z = net.a(x).tanh(), net.c(x)
    if x.sum() > 0:
        z = z + y
    return z


def detached(net: Net, x: Tensor) -> Tensor:
    y = net.a(x)
    if x.sum() > 0:
        y = y.detach()
    return y + net.c(x)


def infinite_slope(net: Net, x: Tensor) -> Tensor:
    """Zeros that come out of the arm are NaN behind the root, which no step has in eager PyTorch."""
    y = net.c(x)
    root = (y - y).abs().sqrt() + y
    if x.sum() > 1e6:
        y = y + root
    return y + net.a(x)


def turns(net: Net, x: Tensor) -> Tensor:
    while x.norm() > 1.5:
        x = 0.6 * x - 0.02 * net.a(x).tanh()
    return x + net.c(x)


def counted_turns(net: Net, x: Tensor) -> Tensor:
    y = net.c(x)
    for _ in range(int((x.sum(1) > 0).sum())):
        y = net.a(y).tanh()
    return y


def the_larger(net: Net, x: Tensor) -> Tensor:
    return x + max(net.a(x).sum(), net.c(x).sum())


def one_then_other(net: Net, x: Tensor) -> Tensor:
    """The layer runs where both of two tests hold."""
    y = x
    if x.sum() > 0:
        y = net.a(x)
    z = net.c(x)
    if x.mean() > 0.5:
        z = z + y
    return z


def rows_of_experts(net: Net, x: Tensor) -> Tensor:
    """An expert without rows has a gradient of zeros, in eager PyTorch, too."""
    y, mask = torch.zeros(x.shape[0], 4), x[:, 0] > 0
    y[mask], y[~mask] = net.a(x[mask]), net.c(x[~mask])
    return y


def own_cond(net: Net, x: Tensor) -> Tensor:
    """So has what only one branch of this reads."""
    return torch.cond(x.sum() > 0, lambda x: net.a(x).tanh(), lambda x: net.c(x).sin(), (x,))


Make = Callable[[Any], optim.Optimizer]

MOMENTUM: Make = lambda p: optim.SGD(p, lr=0.005, momentum=0.9, weight_decay=0.1)  # noqa: E731  # a row
DAMPENED: Make = lambda p: optim.SGD(p, lr=0.005, momentum=0.9, dampening=0.5)  # noqa: E731  # a row


@pytest.mark.parametrize(
    ("inside", "make"),
    [
        (two_arms, MOMENTUM),
        (two_arms, DAMPENED),
        (two_arms, lambda p: optim.AdamW(p, lr=0.01)),
        (two_arms, lambda p: optim.Adafactor(p)),
        *(
            (each, MOMENTUM)
            for each in (one_arm, by_expression, before_the_arm, detached, infinite_slope, turns, counted_turns)
        ),
        *((each, MOMENTUM) for each in (the_larger, one_then_other, rows_of_experts, own_cond)),
    ],
)
def test_a_parameter_without_a_gradient_stays_as_it_is(
    inside: Callable[[Net, Tensor], Tensor], make: Make, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = Net(inside)
    optimizer = make(list(model.parameters()))
    assert_teacher_forced(model, optimizer, loss, DATA, tmp_path, steps=12, dynamic_shapes=({0: "n"},))


def test_a_parameter_has_a_gradient_if_one_of_the_micro_batches_gives_it_one(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Net(one_arm)
    optimizer = MOMENTUM(list(model.parameters()))
    pairs = [(torch.stack([torch.randn(3, 4) + one, torch.randn(3, 4) + two]),) for one, two in ((2, -2), (-2, -2))]

    def both(model: nn.Module, x: Tensor) -> Tensor:
        return torch.stack([loss(model, each) for each in x]).mean() if x.dim() == 3 else loss(model, x)

    assert_teacher_forced(model, optimizer, both, pairs, tmp_path, steps=6, accumulate=2, clip_grad_norm=1e6)


def in_an_arm_of_an_arm(net: Net, x: Tensor) -> Tensor:
    if x.mean() > 0.5:  # here
        y = net.a(x)
    elif (x * 2).mean() < -0.5:
        y = net.c(x)
    else:
        y = x
    return y


def in_an_arm_of_a_turn(net: Net, x: Tensor) -> Tensor:
    y = x.sum(0)
    for row in x:  # here
        y = y + net.a(row) if row.sum() > 0 else y + net.c(row)
    return y


def hooked(net: Net, x: Tensor) -> Tensor:
    return net.c(x) if x.sum() > 0 else net.a(x)  # here


class Own(optim.SGD):
    pass


def clipped(p: Any) -> optim.Optimizer:
    for each in p:
        each.register_hook(lambda gradient: gradient.clamp(-1, 1))
    return MOMENTUM(p)


@pytest.mark.parametrize(
    ("inside", "make", "said"),
    [
        (in_an_arm_of_an_arm, MOMENTUM, "branch within a branch"),
        (in_an_arm_of_a_turn, MOMENTUM, "branch within a branch or a loop"),
        (hooked, clipped, "a hook of the parameter would run"),
        (hooked, lambda p: Own(p, lr=0.1, momentum=0.9), "what Own or its hooks make of that"),
    ],
)
def test_what_a_graph_cannot_leave_is_refused_at_its_line(
    inside: Callable[[Net, Tensor], Tensor], make: Make, said: str, tmp_path: Path
) -> None:
    """The cure is what the finding says."""
    torch.manual_seed(0)
    model = Net(inside)
    with pytest.raises(ExportError, match=said) as caught:
        export_training_step(model, make(list(model.parameters())), loss, DATA[0], dynamic_shapes=({0: "n"},))
    (finding,) = caught.value.log.findings
    assert finding.place is not None
    assert "# here" in Path(__file__).read_text("utf-8").splitlines()[finding.place.line - 1]
    assert "0 * parameter.sum()" in finding.fixes[0].description

    def cured(model: nn.Module, x: Tensor) -> Tensor:
        return loss(model, x) + sum(0 * each.sum() for each in model.parameters())

    optimizer = make(list(model.parameters()))
    assert_teacher_forced(model, optimizer, cured, DATA, tmp_path, steps=12, dynamic_shapes=({0: "n"},))


@pytest.mark.parametrize("inside", [in_an_arm_of_an_arm, in_an_arm_of_a_turn])
def test_an_update_that_zeros_do_not_change_needs_no_test(
    inside: Callable[[Net, Tensor], Tensor], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = Net(inside)
    optimizer = optim.SGD(model.parameters(), lr=0.005)
    assert_teacher_forced(model, optimizer, loss, DATA, tmp_path, steps=12, dynamic_shapes=({0: "n"},))
