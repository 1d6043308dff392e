"""State that decides on results after several calls: places in a ring, and counts that come to a number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, export
from fxport.diagnostics import Level, Log, rules
from tests.running import assert_same, run_session, session_of


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


class Assigning(nn.Module):
    """Has another tensor for its state in each call, and counts for somebody else."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(3))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.state = self.state * 0.5 + x.mean((0, 1))
        return self.state * 1


class Growing(Assigning):
    """Has a longer state in each call."""

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.state = torch.cat([self.state, x.mean((0, 1))])
        return self.state.sum() + x


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


class Repeating(nn.Module):
    """Turns as often as it was called, of which a million turns would not end."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.most = 0, 1_000_000

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        y = x
        for _ in range(min(self.calls, self.most)):
            y = y * 1.0
        return y


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
        (Repeating, Level.NOTE),
        (Assigning, Level.NOTE),
        (Growing, Level.NOTE),
    ],
)
def test_later_calls_tell_how_grave_it_is(build: Callable[[], nn.Module], level: Level) -> None:
    log, model = Log(), build().eval()
    before = {name: value for name, value in vars(model).items() if isinstance(value, (int, float))}
    export(model, torch.ones(2, 4, 3), log=log)
    assert {each.level for each in log.findings if each.rule is rules.PYTHON_STATE_BAKED} == {level}
    assert {name: vars(model)[name] for name in before} == before
    assert all(not buffer.any() for buffer in model.buffers())


class Lending(nn.Module):
    """Writes to an array of NumPy that a tensor shares."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = np.zeros(3, dtype=np.float32)

    def forward(self, x: Tensor) -> Tensor:
        self.steps += 1
        steps = torch.from_numpy(self.steps)
        return x * steps if x.sum() > 0 else x - steps


def test_a_shared_array_has_what_the_first_call_finds() -> None:
    log, model = Log(), Lending()
    program = export(model, torch.ones(3), log=log)
    assert not model.steps.any()
    assert {each.level for each in log.findings if each.rule is rules.PYTHON_STATE_BAKED} == {Level.WARNING}
    session = session_of(program)
    for sign in (1.0, -1.0):
        x = torch.full((3,), sign)
        assert_same(run_session(session, program, (x,)), [Lending()(x)])


class MakingAnother(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.layer = nn.Linear(3, 3)
        return self.layer(x)


class LeavingOut(MakingAnother):
    def forward(self, x: Tensor) -> Tensor:
        if self.layer is None:
            return x
        y = self.layer(x)
        self.layer = None
        return y


def test_a_new_layer_in_the_place_of_another_is_refused() -> None:
    with pytest.raises(ExportError) as caught:
        export(MakingAnother(), torch.ones(1, 3))
    assert [each.rule for each in caught.value.log.findings if each.level is Level.ERROR] == [rules.LAYER_MADE]


def test_a_layer_that_is_left_out_from_then_on_is_told() -> None:
    log = Log()
    export(LeavingOut(), torch.ones(1, 3), log=log)
    assert {each.level for each in log.findings if each.rule is rules.PYTHON_STATE_BAKED} == {Level.WARNING}
