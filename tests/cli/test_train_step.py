"""`fxport train-step`: a validated model and its state from one function; functions that do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch

from fxport.exporter.cli import main

SOURCE = """
import torch
from torch import nn
from torch.nn.functional import mse_loss


def step():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batch = (torch.randn(6, 4), torch.randn(6, 1))
    return model, optimizer, lambda model, x, y: mse_loss(model(x), y), batch, ({0: "batch"}, {0: "batch"})


def model():
    return nn.Linear(4, 8)


def shuffled():
    return model(), (torch.randn(2, 4),), {}, {"x": {0: "batch"}}


def no_loss():
    net, optimizer, _, batch, _ = step()
    return net, optimizer, lambda model, x, y: model(x), batch


def stranger():
    net, _, loss, batch, _ = step()
    return net, torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1), loss, batch


def bad_label():
    net, data = nn.Linear(4, 3), (torch.randn(2, 4), torch.tensor([1, 7]))
    return net, torch.optim.SGD(net.parameters(), lr=0.1), lambda m, x, y: nn.functional.cross_entropy(m(x), y), data
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "source.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_step_is_written_with_its_state_and_validated(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train-step", "source.py:step", "--provider", "cpu"]) == 0
    said = capsys.readouterr().out
    assert "equal to PyTorch on cpu" in said
    assert "resized" in said
    assert {"step.onnx", "step.state.safetensors"} <= {file.name for file in folder.iterdir()}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("source.py", "'source.py' is a file; say which of its names is the model"),
        ("source.py:nn", "is no function"),
        ("source.py:model", "gives a value of type 'Linear'"),
        ("source.py:shuffled", "optimizer is of type 'tuple'; give an optimizer"),
        ("source.py:no_loss", "loss_fn must return a tensor of one element"),
        ("source.py:stranger", "has a parameter that is none of the model's"),
    ],
)
def test_what_does_not_fit_is_a_line_and_nothing_is_written(
    folder: Path, source: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train-step", source, "-o", "step.onnx"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert {file.name for file in folder.iterdir()} <= {"source.py", "__pycache__"}


def test_a_step_begins_in_a_checkpoint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))
    torch.save(net.state_dict(), "net.pt")
    assert main(["train-step", "source.py:step", "--provider", "cpu", "--weights", "net.pt"]) == 0
    assert "'opt'" in capsys.readouterr().out
    state = safetensors.torch.load_file("step.state.safetensors")
    assert torch.equal(state["param/0.weight"], net.state_dict()["0.weight"])
    assert main(["train-step", "source.py:step", "--weights", "none.pt"]) == 2


def test_a_step_that_fails_in_pytorch_is_a_finding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train-step", "source.py:bad_label", "--provider", "cpu", "--fail-on", "warning"]) == 1
    said = capsys.readouterr().out
    assert "FXP5001" in said
    assert "IndexError: Target 7 is out of bounds" in said
