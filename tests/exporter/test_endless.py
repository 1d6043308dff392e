"""Models that loop until data say so: on values of fxport's own they may never end, which is their own matter."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fxport import Log, Options, export, export_and_validate
from fxport.diagnostics import rules
from fxport.exporter.capture import eager
from fxport.exporter.capture.eager import Patience, TookTooLongError, interrupted, patience
from fxport.fx_passes.graph import loops_by_data


class Doubles(nn.Module):
    """Ends only where all elements are positive."""

    def forward(self, x: Tensor) -> Tensor:
        while (x < 10).any():
            x = x * 2
        return x


class DoublesNumber(nn.Module):
    """Ends only where the first element is more than -1; its turns call nothing of PyTorch."""

    def forward(self, x: Tensor) -> Tensor:
        number = x[0].item()
        while number < 100:
            number = number * 2 + 1
        return x + number


class Branches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.sum() > 0 else x - 1


@pytest.mark.timeout(120)
@pytest.mark.parametrize("model", [Doubles, DoublesNumber])
def test_an_export_ends_where_the_model_does_not(
    model: type[nn.Module], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eager, "LEAST_PATIENCE", 0.2)
    log = Log()
    result = export_and_validate(model(), (torch.ones(4),), path=tmp_path / "m.onnx", log=log)
    assert result.validation is not None
    assert result.validation.passed
    assert not [each for each in log.findings if each.rule is rules.CAPTURE_DIFFERS]


def test_only_a_loop_by_data_is_ended() -> None:
    loops, branches = (export(model, (torch.ones(4),)).program for model in (Doubles(), Branches()))
    assert loops_by_data(loops.graph_module)
    assert not loops_by_data(branches.graph_module)
    with patience(branches.graph_module, 0.0):
        assert not isinstance(torch.overrides._get_current_function_mode(), Patience)


def count(most: int) -> int:
    number = 0
    while number < most:
        number += 1
    return number


def test_a_loop_over_numbers_is_ended_once_and_leaves_nothing_behind() -> None:
    with pytest.raises(TookTooLongError, match="did not end within"), interrupted(0.1):
        count(10**12)
    assert sys.gettrace() is None
    with interrupted(0.0):  # no loop
        torch.ones(2).add(1)
    assert count(1000) == 1000


def test_a_profile_can_be_taken_after_a_call_that_may_be_ended() -> None:
    """Python 3.11 goes on for ever in a function that is profiled once a thread has been given an exception."""
    called: list[str] = []
    with interrupted(60.0):
        count(10)
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        count(10)
    finally:
        sys.setprofile(None)
    assert called == ["count"]


def test_a_debugger_keeps_its_trace() -> None:
    def trace(*_: object) -> None: ...

    sys.settrace(trace)
    try:
        with interrupted(0.0):
            kept = sys.gettrace()
            count(10)
    finally:
        sys.settrace(None)
    assert kept is trace


def spin(seconds: float) -> None:
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        torch.ones(2) * 2


def test_the_next_call_after_the_time_is_refused() -> None:
    with Patience(0.05), pytest.raises(TookTooLongError, match="did not end within"):
        spin(60.0)


def ended_without_gradients() -> None:
    patient = Patience(60.0)
    with patient, torch.no_grad():
        patient.end = 0.0
        torch.ones(2).add(1)


def test_gradients_are_recorded_again_after_the_end() -> None:
    with pytest.raises(TookTooLongError):
        ended_without_gradients()
    recorded = torch.is_grad_enabled()
    torch.set_grad_enabled(True)  # for the tests behind this one, if it fails
    assert recorded


def test_the_example_has_all_the_time_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "LEAST_PATIENCE", 0.0)
    monkeypatch.setattr(eager, "MORE_PATIENCE", 0.0)
    log = Log()
    export(Doubles(), (torch.ones(4),), options=Options(self_check="always"), log=log)
    assert not [each for each in log.findings if each.rule is rules.CAPTURE_UNCHECKED]
