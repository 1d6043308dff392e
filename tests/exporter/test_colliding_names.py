"""Values whose names would be the same: each has its own, or the names that were asked for are refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from fxport import export
from fxport.exporter.capture.program import NamesError
from fxport.exporter.cli import main

TWO = torch.arange(6.0).reshape(2, 3)


class Colliding(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"a.b": x + 1, "a": {"b": x * 2}, "a.b_1": x - 1, "x": x}


class Reading(torch.nn.Module):
    def forward(self, values: Mapping[str, Any]) -> torch.Tensor:
        return values["a.b"] - 2 * values["a"]["b"]


class Pair(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls += 1
        return x + 1, x * 2


def colliding() -> tuple[torch.nn.Module, tuple[Any, ...]]:
    return Colliding(), (TWO,)


def reading() -> tuple[torch.nn.Module, tuple[Any, ...]]:
    return Reading(), ({"a.b": TWO, "a": {"b": TWO + 5}},)


def names(model: torch.nn.Module, args: tuple[Any, ...], **choices: Any) -> tuple[list[str], list[str]]:
    graph = export(model, args, **choices).model.graph
    return [str(value.name) for value in graph.inputs], [str(value.name) for value in graph.outputs]


def test_paths_that_are_the_same_get_numbers() -> None:
    assert names(*colliding()) == (["x"], ["a.b", "a.b_1", "a.b_1_1", "x.out"])
    assert names(*reading()) == (["values.a.b", "values.a.b_1"], ["output"])


@pytest.mark.parametrize("source", ["colliding", "reading"])
def test_each_value_is_validated_with_its_own(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", f"{__file__}:{source}", "-o", "m.onnx"]) == 0
    assert "equal to PyTorch on cpu" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"output_names": ["y", "y"]}, "output_names has 'y' twice"),
        ({"output_names": ["x", "y"]}, "output_names has 'x', which is the name of an input"),
        ({"input_names": ["in"], "output_names": ["in"]}, "output_names has 'in', which is the name of an input"),
    ],
)
def test_names_that_were_asked_for_are_different(choices: dict[str, list[str]], words: str) -> None:
    with pytest.raises(NamesError, match=words):
        export(Pair(), (TWO,), **choices)


def test_two_inputs_of_one_name() -> None:
    with pytest.raises(NamesError, match="input_names has 'a' twice"):
        export(Reading(), reading()[1], input_names=["a", "a"])


def test_a_name_that_another_value_would_have() -> None:
    assert names(Pair(), (TWO,), output_names=["output.1"])[1] == ["output.1", "output.1_1", "calls.updated"]
    assert names(Pair(), (TWO,), output_names=["calls.updated"])[1] == ["calls.updated", "output.1", "calls.updated_1"]


def test_the_command_line_tells_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", f"{__file__}:Pair", "--input", "x=2x3", "--output-names", "y,y"]) == 2
    assert "output_names has 'y' twice" in capsys.readouterr().err


def test_a_key_that_utf_8_cannot_hold_is_written_by_its_number() -> None:
    class Keyed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"a\udc80b": x + 1}

    program = export(Keyed(), (torch.randn(3),))
    assert [value.name for value in program.model.graph.outputs] == ["a\\udc80b"]


@pytest.mark.parametrize("names", ["input_names", "output_names"])
def test_a_name_that_utf_8_cannot_hold_is_refused(names: str) -> None:
    with pytest.raises(NamesError, match=rf"{names} has 'a\\udc80b', which has no form in UTF-8"):
        export(torch.nn.ReLU(), (torch.randn(3),), **{names: ["a\udc80b"]})
