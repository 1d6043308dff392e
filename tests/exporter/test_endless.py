"""Models that loop until data say so: on values of fxport's own they may never end, which is their own matter."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fxport import Log, Options, export, export_and_validate
from fxport.diagnostics import rules
from fxport.exporter.capture import eager
from fxport.exporter.capture.eager import Patience, TookTooLongError, patience
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
