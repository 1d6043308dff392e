"""A mistake of fxport's own that ends a capture is told as one, and never as the model's failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, export
from fxport.diagnostics.formats import Format
from fxport.diagnostics.report import Report
from fxport.exporter.capture import contexts
from fxport.exporter.capture.patches import symbolic_calls
from fxport.exporter.cli.edge import run


class Spread(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.linspace(0, 1, x.shape[0])


def planted(error: type[Exception], file: str) -> Callable[..., Any]:
    """A function that raises such an error, as if it stood in this file of fxport's."""

    def mistaken(*_: Any, **__: Any) -> Any:
        raise error("planted")

    mistaken.__code__ = mistaken.__code__.replace(co_filename=file)
    return mistaken


def exported() -> Any:
    return export(Spread(), (torch.ones(3),), dynamic_shapes=({0: "n"},))


@pytest.mark.parametrize("error", [NameError, AssertionError])
def test_a_mistake_in_what_the_model_calls_flies_on(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    rewrites: Any = symbolic_calls.REWRITES
    monkeypatch.setitem(rewrites, torch.linspace, planted(error, symbolic_calls.__file__))
    with pytest.raises(error, match="planted"):
        exported()


@pytest.mark.parametrize("error", [NameError, KeyError])
def test_a_mistake_around_the_model_flies_on(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    monkeypatch.setattr(contexts, "sizes_shortened", planted(error, contexts.__file__))
    with pytest.raises(error, match="planted"):
        exported()


@pytest.mark.parametrize("error", [KeyError, RuntimeError])
def test_what_values_of_the_model_may_raise_is_the_models(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    rewrites: Any = symbolic_calls.REWRITES
    monkeypatch.setitem(rewrites, torch.linspace, planted(error, symbolic_calls.__file__))
    with pytest.raises(ExportError):
        exported()


class Mistaken(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + missing  # type: ignore[name-defined]  # noqa: F821  # the mistake


def test_a_mistake_of_the_model_is_the_models() -> None:
    with pytest.raises(ExportError) as caught:
        export(Mistaken(), (torch.ones(3),))
    assert [finding.rule.id for finding in caught.value.log.findings] == ["FXP1023"]


def test_the_command_line_says_internal_error_and_prints_the_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(contexts, "sizes_shortened", planted(NameError, contexts.__file__))
    assert run(lambda log: str(export(Spread(), (torch.ones(3),), log=log)), Report("m.py:Spread", Format.JSON)) == 3
    said = capsys.readouterr()
    assert [finding["rule"] for finding in json.loads(said.out)["findings"]] == ["FXP9001"]
    assert "NameError: planted" in said.err
    assert "contexts.py" in said.err
