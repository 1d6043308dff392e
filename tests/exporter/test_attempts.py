"""Branches and loops on data, one after the other: found together, so that few captures are made, and all are told."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, export
from fxport.diagnostics import Level, Log, rules
from fxport.exporter.capture import attempts as capture
from fxport.exporter.capture.control_flow import recapture as loops
from tests.exporter.test_capture import line_of
from tests.running import assert_same, run_session, session_of


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many errors each attempt has come to, as they are made."""
    made: list[int] = []
    noted = loops._noted

    def counted(*args: Any) -> Any:
        outcome, sites = noted(*args)
        made.append(len(outcome.errors))
        return outcome, sites

    monkeypatch.setattr(loops, "_noted", counted)
    return made


def kept(log: Log) -> list[int]:
    """The lines of the branches that are told to be a part of the model."""
    told = [each for each in log.findings if each.rule is rules.DATA_DEPENDENT_CONTROL_FLOW]
    assert all(each.level is Level.NOTE for each in told)
    return [each.place.line for each in told if each.place is not None]


class Ten(nn.Module):
    """More branches than attempts are made, in functions of their own and in one together."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:  # 0
            x = x * 2
        x = self.scaled(x)
        if x.min() < -1:  # 3
            x = x + 1
        if (x > 1).any():  # 4
            x = x.clamp(max=1)
        if x.mean() > 0:  # 5
            x = x - x.mean()
        for factor in (2, 3):
            x = self.other(x, factor)
        if x[0, 0] > x[1, 1]:  # 8
            x = x.flip(0)
        if x.max() > 5:  # 9
            return x / 5
        return x + 7

    def scaled(self, x: Tensor) -> Tensor:
        if x.abs().max() > 3:  # 1
            x = x / 3
        if x[0, 0] < 0:  # 2
            return x.neg()
        return x

    def other(self, x: Tensor, factor: int) -> Tensor:
        if x[0, 1] > 0:  # 6
            x = x * factor
        n = x.abs().sum()
        while n > 4:  # 7
            n = n / 2
        return x + n


X = torch.tensor([[1.0, -2], [0.5, 4]])


def test_many_branches_take_three_attempts(attempts: list[int]) -> None:
    log = Log()
    program = export(Ten(), (X,), log=log)
    assert attempts == [1, 9, 0]
    places = {Ten.forward: (0, 3, 4, 5, 8, 9), Ten.scaled: (1, 2), Ten.other: (6, 7)}
    lines = [line_of(function, f"# {number}") for function, numbers in places.items() for number in numbers]
    assert sorted(kept(log)) == sorted(lines)
    session = session_of(program)
    for x in (X, -X, X * 4, X / 9, X.T, X - 2, torch.zeros(2, 2)):
        assert_same(run_session(session, program, (x,)), (Ten()(x),))


class Strict(nn.Module):
    """Raises, and never ends, where its questions are answered otherwise than by its data."""

    def forward(self, x: Tensor) -> Tensor:
        if x[0, 0] > 0:
            x = x + 1
        if not (x.abs() < 100).all():
            raise ValueError("too large")
        n = x.abs().sum()
        while True:
            if n < 1:
                break
            n = n / 2
        if x.sum() > 0:
            x = x * 2
        return x + n


def test_what_goes_wrong_meanwhile_is_no_error(attempts: list[int]) -> None:
    program = export(Strict(), (X,))
    assert attempts[-1] == 0
    session = session_of(program)
    for x in (X, -X, X * 4, X.T):
        assert_same(run_session(session, program, (x,)), (Strict()(x),))


class Number(nn.Module):
    """Asks for a number behind branches: no answer would do."""

    def forward(self, x: Tensor) -> Tensor:
        if x[0, 0] > 0:
            x = x + 1
        if x[0, 1] > 0:
            x = x + 2
        return x * "ab".index(chr(97 + int(x.sum())))  # number


def test_a_number_is_refused(attempts: list[int]) -> None:
    log = Log()
    with pytest.raises(ExportError):
        export(Number(), (X,), log=log)
    (told,) = (finding for finding in log.findings if finding.level is Level.ERROR)
    assert told.rule is rules.DATA_DEPENDENT_CONTROL_FLOW
    assert told.place is not None
    assert told.place.line == line_of(Number.forward, "# number")
    assert 0 not in attempts


TABLE = {1: "two", 2: "four"}


class Looked(nn.Module):
    """Looks up a text by a number of the data, whatever an attempt does."""

    def forward(self, x: Tensor) -> Tensor:
        return x * len(TABLE[int(x[0])])


class Sloped(nn.Module):
    """Asks for a gradient of its input, and then looks up a text."""

    def forward(self, x: Tensor) -> Tensor:
        (slope,) = torch.autograd.grad((x.detach().requires_grad_() ** 2).sum(), [x])
        return x * len(TABLE[int(slope[0])])


class Asking(nn.Module):
    """Asks whether gradients are recorded, and then looks up a text."""

    def forward(self, x: Tensor) -> Tensor:
        scale = 2 if torch.is_grad_enabled() else 1
        return x * len(TABLE[int(x[0] * scale)])


@pytest.mark.parametrize(("model", "is_tried"), [(Looked(), False), (Sloped(), True), (Asking(), True)])
def test_gradients_are_recorded_where_they_have_to_do_with_a_failure(
    model: nn.Module, is_tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[nn.Module] = []
    recorded = capture.gradients_recorded

    def noted(module: nn.Module) -> Any:
        tried.append(module)
        return recorded(module)

    monkeypatch.setattr(capture, "gradients_recorded", noted)
    with pytest.raises(ExportError):
        export(model, (torch.tensor([1.0, -2]),))
    assert bool(tried) is is_tried
