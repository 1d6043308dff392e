"""A training step, its state and its graph for evaluation are of one save, at every moment of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import onnx
import pytest
import torch

from fxport import export_training_step
from fxport.diagnostics import drafts
from fxport.exporter.onnx_program import in_place
from fxport.exporter.onnx_program.in_place import save_of
from fxport.exporter.training import TrainingProgram
from fxport.ort_runner.train import TrainingSession
from fxport.ort_runner.train_inputs import RefusedInput

BATCH = {"x": torch.ones(4, 3)}


def loss(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x).square().mean()


@pytest.fixture(scope="module")
def steps() -> Mapping[str, TrainingProgram]:
    """Two steps that differ in their state, and by their graphs."""
    found = {}
    for name, number in (("old", 1.0), ("new", 2.0)):
        model = torch.nn.Linear(3, 2)
        torch.nn.init.constant_(model.weight, number)
        sgd = torch.optim.SGD(model.parameters(), 0.1)
        found[name] = export_training_step(model, sgd, loss, (BATCH["x"],), evaluate=True)
    return found


def weight_of(session: TrainingSession) -> float:
    return float(session.state()["param/weight"][0, 0])


def test_all_files_have_the_number_of_the_save(steps: Mapping[str, TrainingProgram], tmp_path: Path) -> None:
    written = steps["old"].save(tmp_path / "s.onnx")
    assert [path.name for path in written] == ["s.onnx", "s.state.safetensors", "s.evaluate.onnx"]
    assert sorted(written) == sorted(tmp_path.iterdir())
    number = save_of(written[0])
    assert number is not None
    assert save_of(written[2]) == number
    assert "fxport.save" not in steps["old"].model.metadata_props
    steps["old"].save(tmp_path / "t.onnx")
    assert save_of(tmp_path / "t.onnx") == number
    steps["new"].save(tmp_path / "t.onnx")
    assert save_of(tmp_path / "t.onnx") != number
    onnx.checker.check_model(str(written[0]))


@pytest.mark.parametrize("last", range(1, 6))
def test_a_save_that_ends_at_any_rename_leaves_one_of_both(
    last: int, steps: Mapping[str, TrainingProgram], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps["old"].save(tmp_path / "s.onnx")
    count, replaced = 0, os.replace

    def ends(*paths: str | Path) -> None:
        nonlocal count
        count += 1
        if count > last:
            os._exit(0)
        replaced(*paths)

    child = os.fork()
    if child == 0:
        monkeypatch.setattr(os, "replace", ends)
        steps["new"].save(tmp_path / "s.onnx")
        os._exit(0)
    os.waitpid(child, 0)
    session = TrainingSession(tmp_path / "s.onnx")
    number = 1.0 if last < 3 else 2.0  # state, evaluation, and then the model
    assert weight_of(session) == number
    assert float(session.evaluate(BATCH)["loss"]) > 0
    steps["old"].save(tmp_path / "other.onnx")  # finishes what was begun
    assert weight_of(TrainingSession(tmp_path / "s.onnx")) == number
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(drafts.PREFIX)]
    names = {f"{stem}{ending}" for stem in ("s", "other") for ending in (".onnx", *in_place.COMPANIONS)}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_files_of_another_save_are_refused(steps: Mapping[str, TrainingProgram], tmp_path: Path) -> None:
    steps["old"].save(tmp_path / "s.onnx")
    session = TrainingSession(tmp_path / "s.onnx")
    steps["new"].save(tmp_path / "s.onnx")
    with pytest.raises(RefusedInput, match=r"'.*s.evaluate.onnx' is not of the save of '.*s.onnx' that is open"):
        session.evaluate(BATCH)
    steps["old"].save(tmp_path / "t.onnx")
    (tmp_path / "t.state.safetensors").replace(tmp_path / "s.state.safetensors")
    with pytest.raises(RefusedInput, match="open the step again"):
        TrainingSession(tmp_path / "s.onnx")
    session.save(tmp_path / "s.state.safetensors")  # a checkpoint of a session belongs to no save
    assert weight_of(TrainingSession(tmp_path / "s.onnx")) == 1.0


def test_links_stay_and_a_session_follows_them(steps: Mapping[str, TrainingProgram], tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "s.onnx").symlink_to("there/s.onnx")
    steps["new"].save(tmp_path / "s.onnx")
    assert weight_of(TrainingSession(tmp_path / "s.onnx")) == 2.0
    (tmp_path / "there" / "s.state.safetensors").replace(tmp_path / "state")
    (tmp_path / "there" / "s.state.safetensors").symlink_to("../state")
    steps["old"].save(tmp_path / "s.onnx")
    assert (tmp_path / "there" / "s.state.safetensors").is_symlink()
    assert weight_of(TrainingSession(tmp_path / "s.onnx")) == 1.0


def test_a_folder_in_the_way_is_told_before(steps: Mapping[str, TrainingProgram], tmp_path: Path) -> None:
    (tmp_path / "s.state.safetensors").mkdir()
    with pytest.raises(IsADirectoryError, match=r"s\.state\.safetensors' is a folder"):
        steps["old"].save(tmp_path / "s.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["s.state.safetensors"]
