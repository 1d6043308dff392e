"""State that decides on results after several calls: places in a ring, and counts that come to a number."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from fxport import export
from fxport.diagnostics import Level, Log, rules


class Ring(nn.Module):
    """Writes its states in turn, so that only several calls after each other give something else."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("states", torch.zeros(4, 3))
        self.at = 0

    def forward(self, x: Tensor) -> Tensor:
        self.states[self.at] = x.mean((0, 1))
        self.at = (self.at + 1) % 4
        return self.states.mean(0)


class Clearing(nn.Module):
    """Begins anew with every fourth call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls % 4 == 0:
            self.total.zero_()
        self.total += x.mean((0, 1))
        return self.total * 1


class WarmingUp(nn.Module):
    """Gives something else after a hundred calls, as another attribute tells."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.last = 0, 100

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x if self.calls <= self.last else x * 2


class ClearingInTime(nn.Module):
    """Begins anew once half a minute has passed, a tenth of a second for each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.seconds = 0.0

    def forward(self, x: Tensor) -> Tensor:
        self.seconds += 0.1
        if self.seconds > 30:
            self.total.zero_()
        self.total += x.mean((0, 1))
        return self.total * 1


class Logging(nn.Module):
    """Does something every hundredth call that decides on no result."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.told = 0, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls % 100 == 0:
            self.told += 1
        return x * 2


class Exchanging(nn.Module):
    """Exchanges two of its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.one, self.other = self.other, self.one
        return self.one(x)


@pytest.mark.parametrize(
    ("build", "level"),
    [
        (Ring, Level.WARNING),
        (Clearing, Level.WARNING),
        (WarmingUp, Level.WARNING),
        (ClearingInTime, Level.WARNING),
        (Exchanging, Level.WARNING),
        (Logging, Level.NOTE),
    ],
)
def test_later_calls_tell_how_grave_it_is(build: Callable[[], nn.Module], level: Level) -> None:
    log, model = Log(), build().eval()
    before = {name: value for name, value in vars(model).items() if isinstance(value, (int, float))}
    export(model, torch.ones(2, 4, 3), log=log)
    assert {each.level for each in log.findings if each.rule is rules.PYTHON_STATE_BAKED} == {level}
    assert {name: vars(model)[name] for name in before} == before
    assert all(not buffer.any() for buffer in model.buffers())
