"""`fxport export --weights`: from a checkpoint to a validated file, and one line where that cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy
import onnxruntime
import pytest
import safetensors.torch
import torch

from fxport.exporter.checks.items import Item
from fxport.exporter.checks.traces import Traces
from fxport.exporter.checks.work import result_of
from fxport.exporter.cli import main

Output = pytest.CaptureFixture[str]

SOURCE = """\
import torch
from torch import nn


def model():
    layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    assert layers[0].weight.is_meta or not FAKE
    return layers.eval(), (torch.ones(3, 4),), {}, ({0: "rows"},)
"""


@pytest.fixture
def wanted(folder: Path) -> torch.nn.Module:
    """Two sources of one model, and checkpoints of another instance of it, which is returned."""
    for fake in (True, False):
        (folder / f"{'fake' if fake else 'real'}.py").write_text(f"FAKE = {fake}\n{SOURCE}", encoding="utf-8")
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    safetensors.torch.save_file(model.state_dict(), folder / "w.safetensors")
    torch.save({"state_dict": model.state_dict()}, folder / "w.pt")
    return model


@pytest.mark.parametrize("path", ["w.safetensors", "w.pt"])
@pytest.mark.parametrize("flags", [["fake.py:model", "--fake"], ["real.py:model"]], ids=["fake", "real"])
def test_the_file_has_the_checkpoints_weights(
    flags: list[str], path: str, wanted: torch.nn.Module, capsys: Output
) -> None:
    assert main(["export", *flags, "--weights", path, "-o", "m.onnx", "--external-data", "yes"]) == 0
    session = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
    x = torch.rand(5, 4)
    (out,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(out), wanted(x).detach())
    assert "equal to PyTorch on cpu" in capsys.readouterr().out


def test_validation_is_left_out_where_the_weights_do_not_fit_into_memory(
    wanted: torch.nn.Module, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fxport.exporter.weights.fill.available_memory", lambda: 100)
    assert main(["export", "fake.py:model", "--fake", "--weights", "w.pt", "-o", "m.onnx"]) == 0
    said = capsys.readouterr().out
    assert "FXP5001" in said
    assert "and 100 B are free" in said
    assert "not validated" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fake.py:model", "--fake", "--weights", "none"], "--weights: there is no 'none'"),
        (["fake.py:model", "--fake", "--weights", "cut.safetensors"], "is truncated"),
        (["m.pt2", "--fake"], "leave --fake out"),
        (["real.py:model", "--weights-in-place"], "name it with --weights"),
        (["fake.py:model", "--fake", "--weights", "w.pt", "-o", "w.pt"], "is the same file as"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], words: str, wanted: torch.nn.Module, folder: Path, capsys: Output
) -> None:
    (folder / "cut.safetensors").write_bytes((folder / "w.safetensors").read_bytes()[:-4])
    before = sorted(folder.iterdir())
    assert main(["export", *arguments]) == 2
    error = capsys.readouterr().err.strip()
    assert words in error
    assert len(error.splitlines()) == 1
    assert [path for path in sorted(folder.iterdir()) if path.suffix != ""] == [each for each in before if each.suffix]


def test_without_a_checkpoint_each_weight_without_values_is_an_error(wanted: torch.nn.Module, capsys: Output) -> None:
    assert main(["export", "fake.py:model", "--fake", "-o", "m.onnx"]) == 1
    assert "FXP7014" in capsys.readouterr().out
    assert not Path("m.onnx").exists()


WRONG = """\
import torch


def relu(op, x):
    \"\"\"relu(Tensor self) -> Tensor\"\"\"
    return op.Abs(x)


LOWERINGS = {torch.ops.aten.relu.default: relu}
"""


def test_a_difference_is_searched_with_the_checkpoints_weights(
    wanted: torch.nn.Module, folder: Path, capsys: Output
) -> None:
    (folder / "wrong.py").write_text(WRONG, encoding="utf-8")
    arguments = ["fake.py:model", "--fake", "--weights", "w.pt", "-o", "m.onnx", "--plugin", "wrong"]
    assert main(["export", *arguments]) == 1
    assert "Cause: lowering of aten.relu.default" in capsys.readouterr().out


def test_weights_in_place(
    wanted: torch.nn.Module, folder: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fxport.exporter.onnx_program.save.EXTERNAL_THRESHOLD", 32)
    assert (
        main(["export", "fake.py:model", "--fake", "--weights", "w.safetensors", "--weights-in-place", "-o", "m.onnx"])
        == 0
    )
    said = capsys.readouterr().out
    assert "m.onnx (" in said
    assert "+ w.safetensors (" in said
    assert "equal to PyTorch on cpu" in said
    (folder / "out").mkdir()
    arguments = ["--weights", "w.safetensors", "--weights-in-place", "-o", "out/m.onnx"]
    assert main(["export", "fake.py:model", "--fake", *arguments]) == 2
    assert "write the model beside the checkpoint" in capsys.readouterr().err
    assert not list((folder / "out").iterdir())


@pytest.mark.parametrize("fake", [True, False])
def test_a_manifest_names_a_checkpoint(folder: Path, wanted: torch.nn.Module, fake: bool) -> None:
    source = "fake.py:model" if fake else "real.py:model"
    item = Item("m", "m", source, 23, "cpu", weights="w.safetensors", fake=fake, adversarial=True)
    path = folder / "out" / "m.onnx"
    path.parent.mkdir()
    traces = Traces()
    with traces:
        result = result_of(item, path, {}, lambda stage: None)
    assert str(folder / "w.safetensors") in traces.files(item, path)
    samples = result["facts"]["samples"]
    assert [sample["label"] for sample in samples][:3] == ["sample", "resized", "smallest"]
    assert all(sample["passed"] for sample in samples)
    (out,) = onnxruntime.InferenceSession(path).run(None, {"input": numpy.ones((3, 4), numpy.float32)})
    numpy.testing.assert_allclose(numpy.asarray(out), wanted(torch.ones(3, 4)).detach().numpy(), rtol=1e-5)


def test_a_checkpoint_that_is_not_there_is_one_line(folder: Path, wanted: torch.nn.Module) -> None:
    item = Item("m", "m", "real.py:model", 23, "cpu", weights="none.pt")
    key, reason = result_of(item, folder / "m.onnx", {}, lambda stage: None)["mistake"]
    assert key == "weights"
    assert "none.pt" in reason
