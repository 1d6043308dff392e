"""What a step keeps from one to the next: the optimizer's state; anything outside of tensors is refused at its line."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn, optim

from fxport import ExportError
from fxport.exporter.training import TrainingError, export_training_step
from tests.exporter.test_training_state import DATA, Parts, net
from tests.training import assert_teacher_forced, classify

# State of the optimizer -----------------------------------------------------------------------------------------------


def begun_in_part(make: Callable[[Any], optim.Optimizer]) -> Parts:
    """The first layer was frozen in the first step."""
    model = net()
    optimizer = make(model.parameters())
    model[0].requires_grad_(False)
    classify(model, *DATA[0]).backward()
    optimizer.step()
    optimizer.zero_grad()
    model[0].requires_grad_(True)
    return model, optimizer, classify


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.Adam(p, lr=0.01),
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
        lambda p: optim.RAdam(p, lr=0.01),
    ],
    ids=["Adam", "SGD", "dampened SGD", "RAdam"],
)
def test_parameters_that_have_no_state_yet_begin_with_a_fresh_one(
    make: Callable[[Any], optim.Optimizer], tmp_path: Path
) -> None:
    assert_teacher_forced(*begun_in_part(make), DATA, tmp_path, steps=8, tol=3e-6)


class Own(optim.Optimizer):
    def __init__(self, parameters: Any, lr: float = 0.1) -> None:
        super().__init__(parameters, {"lr": lr, "count": 0, "factor": torch.ones(())})
        self.kept = [each for group in self.param_groups for each in group["params"]]
        self.turns = 0

    @property
    def each(self) -> Iterator[Any]:
        return (each for group in self.param_groups for each in group["params"])


class KeepsUnderAName(Own):
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise AssertionError("it is not run")


class KeepsList(KeepsUnderAName):
    pass


class KeepsParameters(Own):
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for parameter in self.kept:
            parameter.data.sub_(0.1 * parameter.grad)


def dampened() -> Parts:
    model, optimizer, loss = begun_in_part(lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5))
    optimizer.register_step_post_hook(lambda *_: None)  # which may ask for the groups
    return model, optimizer, loss


def under_a_name() -> Parts:
    model = net()
    optimizer = KeepsUnderAName(model.parameters())
    optimizer.state["all"] = {"norm": torch.zeros(())}  # type: ignore[index]
    return model, optimizer, classify


def in_a_list() -> Parts:
    model = net()
    optimizer = KeepsList(model.parameters())
    for parameter in model.parameters():
        optimizer.state[parameter]["factors"] = [torch.eye(each) for each in parameter.shape]
    return model, optimizer, classify


def kept_parameters() -> Parts:
    model = net()
    return model, KeepsParameters(model.parameters()), classify


class Filter(nn.Module):
    """Filters frequencies with weights that are complex, or by parts."""

    def __init__(self, is_complex: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, dtype=torch.cfloat) if is_complex else torch.randn(4, 2))
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight if self.weight.is_complex() else torch.view_as_complex(self.weight)
        return self.head(torch.fft.irfft(torch.fft.rfft(x) * weight, n=6))


def filtering(is_complex: bool) -> Parts:
    model = Filter(is_complex)
    return model, optim.Adam(model.parameters(), lr=0.01), classify


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (dampened, "a group of their own"),
        (under_a_name, "keeps state under 'all'"),
        (in_a_list, "'factors' of '0.weight' is of type 'list'"),
        (lambda: filtering(is_complex=True), "torch.view_as_complex"),
        (kept_parameters, "take them from `self.param_groups`"),
    ],
)
def test_state_that_a_graph_cannot_hold_is_refused_by_its_name(parts: Callable[[], Parts], said: str) -> None:
    with pytest.raises(TrainingError, match=said):
        export_training_step(*parts(), DATA[0])


# Carried from step to step --------------------------------------------------------------------------------------------


class CountsInGroup(Own):
    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in self.param_groups:
            group["count"] += 1  # here
            for parameter in group["params"]:
                parameter.sub_(0.1 / group["count"] * parameter.grad)


class CountsItself(Own):
    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.turns += 1  # here
        for parameter in self.each:
            parameter.sub_(0.1 / self.turns * parameter.grad)


class KeepsTensorInGroup(Own):
    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        factor = self.param_groups[0]["factor"].mul_(0.5)  # here
        for parameter in self.each:
            parameter.sub_(factor * parameter.grad)


class CountsAsState(Own):
    """What CountsInGroup is told to do."""

    def _init_group(self, group: dict[str, Any]) -> None:
        for parameter in group["params"]:
            if not self.state[parameter]:
                self.state[parameter]["count"] = torch.zeros(())

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in self.param_groups:
            self._init_group(group)
            for parameter in group["params"]:
                self.state[parameter]["count"] += 1
                parameter.sub_(0.1 / self.state[parameter]["count"] * parameter.grad)


def with_own(kind: type[Own]) -> Parts:
    model = net()
    return model, kind(model.parameters()), classify


def counted_in_loss() -> Parts:
    calls = [0]

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        calls[0] += 1  # here
        return classify(model, x, y) / calls[0]

    model = net()
    return model, optim.SGD(model.parameters(), lr=0.1), loss


def history_in_loss() -> Parts:
    seen: list[Tensor] = []

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found = classify(model, x, y)
        seen.append(found.detach())  # here
        return found

    model = net()
    return model, optim.SGD(model.parameters(), lr=0.1), loss


def returned_beside_the_loss() -> Parts:
    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Any:
        found = classify(model, x, y)
        return found, {"seen": found.detach()}

    model = net()
    return model, optim.SGD(model.parameters(), lr=0.1), loss


def running_mean_in_loss() -> Parts:
    mean = torch.zeros(())

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found = classify(model, x, y)
        mean.mul_(0.9).add_(found.detach(), alpha=0.1)  # here
        return found / (mean + 1)

    model = net()
    return model, optim.SGD(model.parameters(), lr=0.1), loss


def teacher_outside() -> Parts:
    teacher = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).train()

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        target = teacher(x).softmax(-1).detach()  # here
        return nn.functional.cross_entropy(model(x), target)

    model = net()
    return model, optim.SGD(model.parameters(), lr=0.1), loss


class Taught(nn.Module):
    """What `teacher_outside` is told to do."""

    def __init__(self) -> None:
        super().__init__()
        self.net = net()
        self.teacher = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.net(x), self.teacher(x).softmax(-1))


def teacher_inside() -> Parts:
    model = Taught().train()
    return model, optim.SGD(model.net.parameters(), lr=0.1), lambda model, x, y: model(x)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(6, 3), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1  # here
        return self.layer(x) * min(1.0, self.calls / 10)


class KeepsMean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.mean = nn.Linear(6, 3), torch.zeros(6)

    def forward(self, x: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)  # here
        return self.layer(x - self.mean)


class BuffersBoth(nn.Module):
    """What both are told to do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return self.layer(x - self.mean) * (self.calls / 10).clamp(max=1)


def with_model(kind: type[nn.Module]) -> Parts:
    model = kind()
    return model, optim.SGD(model.parameters(), lr=0.1), classify


def scheduled() -> Parts:
    model = net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    optimizer.register_step_post_hook(lambda *_: schedule.step())  # here
    return model, optimizer, classify


def drawn_by_python() -> Parts:
    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return classify(model, x * random.random(), y)  # here

    model = net()
    return model, optim.SGD(model.parameters(), lr=0.1), loss


def drawn_by_numpy() -> Parts:
    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        share = np.random.beta(0.4, 0.4)  # here
        return share * classify(model, x, y) + (1 - share) * classify(model, x.flip(0), y.flip(0))

    model = net()
    return model, optim.SGD(model.parameters(), lr=0.1), loss


def loss_scaled() -> Parts:
    """The scaler makes its factor when it is first called."""
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return scaler.scale(classify(model, x, y))  # here

    model = net()
    return model, optim.SGD(model.parameters(), lr=0.1), loss


REFUSED: dict[str, tuple[Callable[[], Parts], str]] = {
    "a scaler of losses": (loss_scaled, "Leave the scaler out"),
    "a number in a group": (lambda: with_own(CountsInGroup), "optimizer.state"),
    "a number of the optimizer": (lambda: with_own(CountsItself), "optimizer.state"),
    "a tensor in a group": (lambda: with_own(KeepsTensorInGroup), "optimizer.state"),
    "a schedule": (scheduled, "session.rates"),
    "a number in the loss": (counted_in_loss, "buffer"),
    "a list in the loss": (history_in_loss, "beside the loss"),
    "a tensor in the loss": (running_mean_in_loss, "buffer"),
    "another model's statistics": (teacher_outside, "submodule"),
    "numbers drawn by Python": (drawn_by_python, "Draw with torch"),
    "numbers drawn by NumPy": (drawn_by_numpy, "Draw with torch"),
    "a number of the model": (lambda: with_model(Counting), "buffer"),
    "a tensor of the model": (lambda: with_model(KeepsMean), "buffer"),
}


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize(("parts", "cure"), REFUSED.values(), ids=REFUSED)
def test_what_a_step_would_carry_outside_of_its_tensors_is_refused_at_its_line(
    parts: Callable[[], Parts], cure: str
) -> None:
    model, optimizer, loss = parts()
    with pytest.raises(ExportError) as raised:
        export_training_step(model, optimizer, loss, DATA[0])
    (told,) = raised.value.log.findings
    assert told.place is not None
    assert told.place.path == __file__
    assert "# here" in Path(__file__).read_text(encoding="utf-8").splitlines()[told.place.line - 1]
    assert any(cure in fix.description for fix in told.fixes)
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert optimizer.param_groups[0].get("factor", 1) == 1


CURES: dict[str, Callable[[], Parts]] = {
    "state of the optimizer": lambda: with_own(CountsAsState),
    "a submodule": teacher_inside,
    "complex weights by parts": lambda: filtering(is_complex=False),
    "buffers": lambda: with_model(BuffersBoth),
}


@pytest.mark.parametrize("parts", CURES.values(), ids=CURES)
def test_the_cures_are_trained(parts: Callable[[], Parts], tmp_path: Path) -> None:
    assert_teacher_forced(*parts(), DATA, tmp_path, steps=12)


def test_what_is_returned_beside_the_loss_is_exported() -> None:
    program = export_training_step(*returned_beside_the_loss(), DATA[0])
    assert "seen" in [value.name for value in program.model.graph.outputs]
