"""State beside tensors that a model changes: a warning where its next call gives something else, else a note."""

from __future__ import annotations

import itertools
import threading
from array import array
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache, lru_cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, Options, export
from fxport.diagnostics import Level, Log, rules
from tests.running import run_session, session_of


class Recurrent(nn.Module):
    """Goes on from where its last call ended."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(3, 3, batch_first=True)
        self.state: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        y, self.state = self.layer(x, self.state)
        return y


class TakingTurns(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        self.turn = 0

    def forward(self, x: Tensor) -> Tensor:
        layer = self.layers[self.turn % 3]
        self.turn += 1
        return layer(x)


class Counting(nn.Module):
    """Counts its calls for somebody else; random numbers and buffers are no part of it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(()))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.total.add_(1)
        return nn.functional.dropout(x, 0.5, training=True) * self.total


class CountingFromClass(nn.Module):
    """Has its first count from its class, and counts for three calls before it matters."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * 10 if self.calls > 3 else x


class GrowingMean(nn.Module):
    """Gives for equal inputs what it gave before, as only other inputs show what it keeps."""

    kept: tuple[Tensor, ...] | None = None

    def forward(self, x: Tensor) -> Tensor:
        kept = x if self.kept is None else torch.cat([self.kept[0], x])
        self.kept = (kept,)
        return kept.mean(0)


class TurningRound(nn.Module):
    """Has layers without weights in a list whose order it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.ReLU(), nn.Tanh()]

    def forward(self, x: Tensor) -> Tensor:
        self.layers.reverse()
        return self.layers[0](x)


class FailingAfterwards(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.is_used = False

    def forward(self, x: Tensor) -> Tensor:
        if self.is_used:
            raise RuntimeError("used up")
        self.is_used = True
        return x + 1


class Holding(nn.Module):
    """Goes on from what is kept elsewhere than in attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.step = partial(*self.made())

    def forward(self, x: Tensor) -> Tensor:
        return x + self.step()

    @staticmethod
    def made() -> tuple[Any, ...]:
        raise NotImplementedError


def in_a_memo() -> tuple[Any, ...]:
    return (lambda kept: kept(3).add_(1) + 0, lru_cache(torch.zeros))


def in_a_cycle() -> tuple[Any, ...]:
    return next, itertools.cycle((1.0, 2.0))


def in_a_variable() -> tuple[Any, ...]:
    kept = ContextVar("kept", default=0)
    return (lambda: [kept.set(kept.get() + 1), kept.get()][1],)


def in_an_array() -> tuple[Any, ...]:
    return (lambda kept: [kept.append(1.0), sum(kept)][1], array("d"))


def in_numpy() -> tuple[Any, ...]:
    return (lambda kept: float(np.add(kept, 1, out=kept).sum()), np.zeros(2))


def in_a_thread() -> tuple[Any, ...]:
    return (lambda kept: [setattr(kept, "count", getattr(kept, "count", 0) + 1), kept.count][1], threading.local())


def in_the_function() -> tuple[Any, ...]:
    def step() -> int:
        step.count = getattr(step, "count", 0) + 1  # type: ignore[attr-defined]  # as users write it
        return step.count  # type: ignore[attr-defined]

    return (step,)


def in_a_closure() -> tuple[Any, ...]:
    held = torch.zeros(3)

    def step() -> Tensor:
        nonlocal held
        held = held + 1
        return held

    return (step,)


def in_an_object() -> tuple[Any, ...]:
    return (lambda kept: [setattr(kept, "value", kept.value + 1), kept.value][1], SimpleNamespace(value=torch.zeros(3)))


def in_a_full_deque() -> tuple[Any, ...]:
    return (lambda kept: [kept.append(kept[1] + 1), kept[1]][1], deque([torch.zeros(3)] * 2, maxlen=2))


class Replacing(nn.Module):
    """Puts another container of the last sizes or tensors in the place of one."""

    def __init__(self, made: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.made = made
        self.kept = made(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        y = x + sum(self.kept.values() if isinstance(self.kept, dict) else self.kept)
        self.kept = self.made(x)
        return y


REPLACED: list[Callable[[Tensor], Any]] = [
    lambda x: deque([x]),
    lambda x: (len(x),),
    lambda x: [len(x)],
    lambda x: {"rows": len(x)},
    lambda x: {len(x)},
]


class Registering(nn.Module):
    """Makes its buffer in the first call, which the capture takes for each."""

    def forward(self, x: Tensor) -> Tensor:
        if not hasattr(self, "total"):
            self.register_buffer("total", torch.zeros(3))
        self.total = self.total + x.sum((0, 1))
        return x + self.total


def level_of_state(model: nn.Module, options: Options) -> Level:
    log = Log()
    export(model.eval(), torch.ones(2, 4, 3), options=options, log=log)
    (level,) = {each.level for each in log.findings if each.rule is rules.PYTHON_STATE_BAKED}
    return level


@pytest.mark.parametrize(
    ("build", "level"),
    [
        (Recurrent, Level.WARNING),
        (TakingTurns, Level.WARNING),
        (CountingFromClass, Level.WARNING),
        (GrowingMean, Level.WARNING),
        (TurningRound, Level.WARNING),
        (FailingAfterwards, Level.WARNING),
        (Counting, Level.NOTE),
    ],
)
def test_the_next_call_tells_how_grave_it_is(build: Callable[[], nn.Module], level: Level) -> None:
    model = build()
    assert level_of_state(model, Options()) == level
    if isinstance(model, Counting):
        assert (model.calls, float(model.total)) == (0, 0.0)


@pytest.mark.parametrize(
    "made",
    [
        *(in_a_memo, in_a_cycle, in_a_variable, in_an_array, in_numpy, in_a_thread, in_the_function),
        *(in_a_closure, in_an_object, in_a_full_deque),
    ],
)
def test_what_is_kept_elsewhere_is_told(made: Callable[[], tuple[Any, ...]]) -> None:
    model = type("Model", (Holding,), {"made": staticmethod(made)})()
    assert level_of_state(model, Options()) == Level.WARNING


@pytest.mark.parametrize("made", REPLACED, ids=["deque", "tuple", "list", "dict", "set"])
def test_a_container_in_the_place_of_another_is_told(made: Callable[[Tensor], Any]) -> None:
    assert level_of_state(Replacing(made), Options()) == Level.WARNING


def test_what_an_object_has_like_its_class_is_none() -> None:
    class Setting(nn.Module):
        scale = 2.0

        def forward(self, x: Tensor) -> Tensor:
            self.scale = 2.0
            return x * self.scale

    log = Log()
    export(Setting(), torch.ones(2, 3), log=log)
    assert not log.findings


def test_an_equal_container_in_the_place_of_another_is_none() -> None:
    log = Log()
    export(Replacing(lambda x: [1, 2]).eval(), torch.ones(2, 3), log=log)
    assert not log.findings


def test_a_buffer_that_forward_makes_is_told() -> None:
    model = Registering()
    assert level_of_state(model, Options()) == Level.WARNING
    assert not hasattr(model, "total")


def test_no_call_is_made_where_nothing_is_to_be_checked() -> None:
    assert level_of_state(TakingTurns(), Options(self_check="never")) == Level.NOTE


class Writing(nn.Module):
    """Counts its calls and writes to a tensor that is no buffer."""

    def __init__(self, weight: Tensor, write: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.weight, self.write, self.calls = weight, write, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        with torch.no_grad():
            self.write(self.weight)
        return x + self.weight


@pytest.mark.parametrize("kind", [nn.Parameter, torch.Tensor], ids=["parameter", "attribute"])
@pytest.mark.parametrize("write", [lambda w: w.add_(1), lambda w: w.data.add_(1)], ids=["in_place", "through_data"])
def test_further_calls_leave_weights_as_they_were(kind: Any, write: Callable[[Tensor], object]) -> None:
    model = Writing(kind(torch.zeros(3)), write)
    program = export(model, torch.ones(2, 3))
    assert model.weight.tolist() == [0.0, 0.0, 0.0]
    output, updated = run_session(session_of(program), program, (torch.ones(2, 3),))
    assert (output.tolist(), updated.tolist()) == ([[2.0] * 3] * 2, [1.0] * 3)


def test_strict_capture_of_a_write_through_data_is_refused() -> None:
    """Dynamo makes a constant of `weight.data`, of which the fake value ended the process."""

    class Strict(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(3))

        def forward(self, x: Tensor) -> Tensor:
            self.weight.data.add_(1)
            return x.numpy().sum() + self.weight

    log = Log()
    with pytest.raises(ExportError):
        export(Strict(), torch.ones(2, 3), log=log)
    assert log.findings


@lru_cache
def counter(key: str) -> list[float]:
    return [0.0]


@cache
def counters(key: str) -> dict[str, float]:
    return {key: 0.0}


@lru_cache
def steps(count: int) -> list[float]:
    return [float(i) for i in range(count)]


class CountsInMemo(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        counter("calls")[0] += 1
        return x * counter("calls")[0]


class CountsInUnboundedMemo(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        counters("calls")["calls"] += 1
        return x * counters("calls")["calls"]


class ReadsMemo(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.tensor(steps(4))


@pytest.mark.parametrize("called_before", [False, True])
@pytest.mark.parametrize(
    ("model", "is_told"), [(CountsInMemo(), True), (CountsInUnboundedMemo(), True), (ReadsMemo(), False)]
)
def test_what_a_memo_holds_and_forward_changes_is_told(model: nn.Module, is_told: bool, called_before: bool) -> None:
    for each in (counter, counters, steps):
        each.cache_clear()
    x = torch.ones(4)
    if called_before:
        model(x)
    log = Log()
    export(model, x, log=log)
    told = [each.level for each in log.findings if each.rule.id == "FXP1018"]
    assert told == ([Level.WARNING] if is_told else [])
