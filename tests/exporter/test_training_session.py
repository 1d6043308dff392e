"""A training session survives mistakes, and a resumed one goes on to the same bits."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn, optim

from fxport.exporter.training import TrainingProgram, export_training_step
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.train import NonFiniteLoss, TrainingSession
from fxport.ort_runner.train_inputs import RefusedInput

Batch = dict[str, Any]


def weighted(model: nn.Module, x: torch.Tensor, y: torch.Tensor, scale: torch.Tensor) -> Any:
    loss = nn.functional.cross_entropy(model(x), y) * scale
    return loss, {"share": (model(x).argmax(1) == y).float().mean()}


def exported(**how: Any) -> TrainingProgram:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.BatchNorm1d(8), nn.Linear(8, 3)).train()
    optimizer = optim.AdamW(
        [{"params": model[0].parameters(), "lr": 0.01}, {"params": [*model[2].parameters(), *model[3].parameters()]}]
    )
    dims = ({0: "batch"}, {0: "batch"}, None)
    example = (torch.randn(5, 6), torch.randint(0, 3, (5,)), torch.tensor(1.0))
    how = {"dynamic_shapes": dims, **how}
    return export_training_step(model, optimizer, weighted, example, **how)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("step") / "step.onnx"
    exported().save(path)
    return path


def data(count: int) -> Iterator[Batch]:
    numbers = np.random.default_rng(1)
    for _ in range(count):
        rows = int(numbers.integers(2, 9))
        yield {
            "x": numbers.standard_normal((rows, 6), np.float32),
            "y": numbers.integers(0, 3, rows),
            "scale": np.float32(1),
        }


def opened(path: Path, **how: Any) -> TrainingSession:
    return TrainingSession(path, provider="cpu", **how)


def assert_same(session: TrainingSession, other: TrainingSession) -> None:
    assert session.steps == other.steps
    assert session.seed == other.seed
    assert dict(session.rates) == dict(other.rates)
    for name, value in other.state().items():
        np.testing.assert_array_equal(session.state()[name], value, strict=True, err_msg=name)


def changed(batch: Batch, **changes: Any) -> Batch:
    return {name: value for name, value in {**batch, **changes}.items() if value is not ...}


RATE = "lr/1"

MISTAKES: dict[str, tuple[Callable[[TrainingSession, Batch, Path], Any], str]] = {
    "unknown name": (lambda s, b, _: s.step(changed(b, z=1.0)), "the batch has 'z', which the model does not take"),
    "misspelt name": (lambda s, b, _: s.step(changed(b, y=..., batch_y=b["y"])), "did you mean 'batch/y'"),
    "missing name": (lambda s, b, _: s.step(changed(b, y=...)), "the batch lacks 'batch/y'"),
    "a name twice": (lambda s, b, _: s.step(changed(b, **{"batch/x": b["x"]})), "'batch/x' twice"),
    "state as batch": (lambda s, b, _: s.step(changed(b, **{"param/0.weight": b["x"]})), "has 'param/0.weight'"),
    "a rate as batch": (lambda s, b, _: s.step(changed(b, **{RATE: 0.1})), f"has '{RATE}'"),
    "a tuple": (lambda s, b, _: s.step((b["x"], b["y"])), "type 'tuple'; give a mapping"),  # type: ignore[arg-type]
    "empty batch": (lambda s, b, _: s.step(changed(b, x=b["x"][:0], y=b["y"][:0])), "'batch/x' is empty"),
    "wrong width": (lambda s, b, _: s.step(changed(b, x=b["x"][:, :5])), r"takes \[batch, 6\]"),
    "wrong rank": (lambda s, b, _: s.step(changed(b, x=b["x"][0])), r"'batch/x' has the shape \[6\]"),
    "sizes that differ": (lambda s, b, _: s.step(changed(b, y=b["y"][:-1])), r"'batch' is \d in 'batch/x'"),
    "integer pixels": (lambda s, b, _: s.step(changed(b, x=b["x"].astype(np.uint8))), "is uint8, .* takes float32"),
    "float labels": (lambda s, b, _: s.step(changed(b, y=b["y"] * 1.0)), "is float64, the model takes int64"),
    "complex": (lambda s, b, _: s.step(changed(b, x=b["x"] * 1j)), "is of dtype complex64"),
    "strings": (lambda s, b, _: s.step(changed(b, y=["a"] * len(b["y"]))), "no array of numbers but list"),
    "None": (lambda s, b, _: s.step(changed(b, x=None)), "no array of numbers but NoneType"),
    "a mask": (
        lambda s, b, _: s.step(changed(b, x=np.ma.masked_array(b["x"], np.ones_like(b["x"])))),
        "'batch/x' is a masked array",
    ),
    "ragged list": (lambda s, b, _: s.step(changed(b, x=[[1.0, 2.0], [1.0]])), "'batch/x' is no array"),
    "too large for float32": (lambda s, b, _: s.step(changed(b, scale=1e300)), "1e.300, which does not fit"),
    "too large for int64": (
        lambda s, b, _: s.step(changed(b, y=np.full(len(b["y"]), 2**63, np.uint64))),
        "9223372036854775808, which does not fit into int64",
    ),
    "a tensor with a gradient": (
        lambda s, b, _: s.step(changed(b, x=torch.ones(3, 6, requires_grad=True))),
        "'batch/x' is no array",
    ),
    "NaN": (lambda s, b, _: s.step(changed(b, x=b["x"] * np.nan)), "'loss' of step 3 is nan"),
    "infinite loss": (lambda s, b, _: s.step(changed(b, scale=np.inf)), "'loss' of step 3 is inf"),
    "a label that no class has": (lambda s, b, _: s.step(changed(b, y=b["y"] + 100)), "out of data bounds|idx"),
    "unknown rate": (lambda s, *_: s.rates.__setitem__("lr/7", 0.1), "has 'lr/7'.*did you mean"),
    "rates with an unknown one": (lambda s, *_: setattr(s, "rates", {**s.rates, "lr": 0.1}), "has 'lr'"),
    "rates without one": (lambda s, *_: setattr(s, "rates", {RATE: 0.1}), "lacks 'lr/0'"),
    "rates of which one is unknown": (lambda s, *_: s.rates.update({"lr/0": 0.5, "lr/7": 0.5}), "has 'lr/7'"),
    "rates of which one is infinite": (lambda s, *_: s.rates.update({"lr/0": 0.5, RATE: np.inf}), "no finite float32"),
    "a rate that is no number": (lambda s, *_: s.rates.__setitem__(RATE, "fast"), "'fast', which is no number"),
    "a rate that is NaN": (lambda s, *_: s.rates.__setitem__(RATE, np.nan), "no finite float32"),
    "a rate taken away": (lambda s, *_: s.rates.pop(RATE), "needs a learning rate"),
    "a seed that is no integer": (lambda s, *_: setattr(s, "seed", 1.5), "seed is 1.5"),
    "a seed of 64 bits": (lambda s, *_: setattr(s, "seed", 2**64), "does not fit into int64"),
    "no rates": (lambda s, *_: setattr(s, "rates", None), "learning rates is of type 'NoneType'; give a mapping"),
    "steps that are no integer": (lambda s, *_: setattr(s, "steps", "3"), "steps is '3'; it must be an integer"),
    "steps below 0": (lambda s, *_: setattr(s, "steps", -3), "steps is -3; it must be at least 0"),
    "an unknown choice for NaN": (lambda s, *_: setattr(s, "on_nan", "ignore"), "on_nan is 'ignore'; it takes: raise"),
    "no state": (lambda s, *_: s.load(None), "the state is of type 'NoneType'; give a mapping"),
    "a part of a state": (lambda s, *_: s.load(dict(list(s.state().items())[1:])), "the state lacks 'param/0.weight'"),
    "a state with more": (lambda s, *_: s.load({**s.state(), "param/9": np.zeros(1)}), "the state has 'param/9'"),
    "a state of another shape": (
        lambda s, *_: s.load({**s.state(), "param/0.weight": np.zeros((8, 7))}),
        r"'param/0.weight' has the shape \[8, 7\]; the model takes \[8, 6\]",
    ),
    "a state of another dtype": (
        lambda s, *_: s.load({**s.state(), "param/0.weight": np.zeros((8, 6), np.int32)}),
        "'param/0.weight' is int32",
    ),
    "no checkpoint": (lambda s, _, f: s.resume(f / "none.safetensors"), "none.safetensors"),
    "a damaged checkpoint": (lambda s, _, f: s.resume(f / "half.safetensors"), "is damaged"),
    "a text": (lambda s, _, f: s.resume(f / "text.safetensors"), "is damaged, or no safetensors file"),
    "a checkpoint of another step": (
        lambda s, _, f: s.resume(f / "other.safetensors"),
        "other.* has 'param/1.bias'",
    ),
    "a log of something else": (lambda s, b, f: s.fit([b], log=f / "text.safetensors"), "no log of a training"),
    "a log of another step": (lambda s, b, f: s.fit([b], log=f / "other.csv"), "has the columns .*; name another file"),
    "a checkpoint in no folder": (lambda s, *_: s.save("/nowhere/run.safetensors"), "/nowhere"),
    "checkpoints every 0 steps": (lambda s, b, f: s.fit([b], checkpoint=f / "run", every=0), "every is 0"),
}


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory, saved: Path) -> Path:
    """A folder with files that are no checkpoints of the step."""
    folder = tmp_path_factory.mktemp("strange")
    whole = saved.with_suffix(".state.safetensors").read_bytes()
    (folder / "half.safetensors").write_bytes(whole[: len(whole) // 2])
    (folder / "text.safetensors").write_text("epoch,loss\n1,2.0\n")
    (folder / "other.csv").write_text("step,loss\n1,2.0\n")
    layer = nn.Linear(6, 3)
    other = nn.Sequential(nn.Flatten(), layer)
    batch = (torch.randn(5, 6), torch.randint(0, 3, (5,)), torch.tensor(1.0))
    program = export_training_step(other, optim.SGD(other.parameters(), lr=0.1), weighted, batch)
    program.save(folder / "other.onnx")
    opened(folder / "other.onnx").save(folder / "other.safetensors")
    return folder


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_leaves_the_session_as_it_was(name: str, saved: Path, strange: Path) -> None:
    mistake, said = MISTAKES[name]
    session, untouched = opened(saved, seed=3), opened(saved, seed=3)
    batches = list(data(4))
    for each in (session, untouched):
        each.rates["lr/0"] = 0.02
        each.fit(batches[:2])
    with pytest.raises((RefusedInput, NonFiniteLoss, Failure, OSError), match=said):
        mistake(session, batches[2], strange)
    assert_same(session, untouched)
    assert session.fit(batches[2:]) == untouched.fit(batches[2:])
    assert_same(session, untouched)


@pytest.mark.parametrize("broken_off", range(6))
def test_a_resumed_run_goes_on_to_the_same_bits(broken_off: int, saved: Path, tmp_path: Path) -> None:
    """After every step, with a seed and with rates that are not those of the export."""
    whole, first, resumed = opened(saved, seed=12345), opened(saved, seed=12345), opened(saved, seed=6)
    batches = list(data(6))

    def trained(session: TrainingSession, todo: list[Batch]) -> list[float]:
        losses = []
        for batch in todo:
            losses += session.fit([batch])
            session.rates[RATE] *= 0.7
        return losses

    losses = trained(whole, batches)
    before = trained(first, batches[:broken_off])
    first.save(tmp_path / "run.safetensors")
    resumed.resume(tmp_path / "run.safetensors")
    assert_same(resumed, first)
    assert before + trained(resumed, batches[broken_off:]) == losses
    assert_same(resumed, whole)
    other = opened(saved, seed=6)
    assert trained(other, batches) != losses  # the seed matters


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_no_checkpoint_takes_the_place_of_a_pipe_or_a_device(saved: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no ordinary file") as raised:
        opened(saved).save(tmp_path / "pipe")
    assert raised.value.filename == str(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_values_are_converted_where_nothing_is_lost(saved: Path) -> None:
    exact, given = opened(saved), opened(saved)
    for batch in data(3):
        x = batch["x"].astype(ml_dtypes.bfloat16).astype(np.float32)
        plain = {**batch, "x": x}
        forms = {"x": x.astype(np.float64), "y": batch["y"].astype(np.int32), "scale": 1}
        swapped = {"x": x.astype(">f4"), "y": batch["y"].astype(">i8"), "scale": np.array(1, "<f4")}
        lists = {**forms, "x": x.tolist(), "y": batch["y"].tolist()}
        for strange in (forms, lists, swapped, {**forms, "x": torch.tensor(x)}, {**forms, "x": x[::-1].copy()[::-1]}):
            given.load(exact.state(), exact.steps)
            result = given.step(strange)["loss"]
        np.testing.assert_array_equal(exact.step(plain)["loss"], result)
        assert_same(given, exact)
        wide = {np.dtype(np.float32): np.float64, np.dtype(np.int64): np.uint64}
        given.load({name: value.astype(wide[value.dtype]) for name, value in exact.state().items()}, exact.steps)
        assert_same(given, exact)


def test_steps_without_a_finite_loss_are_skipped_or_kept_by_choice(saved: Path) -> None:
    batches = list(data(3))
    bad = changed(batches[1], x=batches[1]["x"] * np.nan)
    with pytest.raises(RefusedInput, match="it takes: raise, skip, keep"):
        opened(saved, on_nan="ignore")
    skipping, plain = opened(saved, on_nan="skip"), opened(saved)
    losses = skipping.fit([batches[0], bad, batches[2]])
    assert [bool(np.isfinite(loss)) for loss in losses] == [True, False, True]
    plain.step(batches[0])
    plain.load(plain.state(), steps=2)  # the step is counted, so that the seed goes on
    plain.step(batches[2])
    assert_same(skipping, plain)
    keeping = opened(saved, on_nan="keep")
    keeping.fit([batches[0], bad])
    assert np.isnan(keeping.state()["param/3.weight"]).all()


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_log_has_a_row_for_each_step_also_of_a_run_that_was_broken_off(saved: Path, tmp_path: Path) -> None:
    log, batches = tmp_path / "run.csv", list(data(6))
    session = opened(saved)
    losses = session.fit(batches[:3], log=log, checkpoint=tmp_path / "run.safetensors")
    session.fit(batches[3:5], log=log)  # these are lost: there is no checkpoint of them
    with log.open("a", encoding="utf-8") as file:
        file.write("6,0.2")  # a row that was being written
    resumed = opened(saved)
    resumed.resume(tmp_path / "run.safetensors")
    resumed.rates[RATE] = 0.25
    losses += resumed.fit(batches[3:], log=log, progress=True)
    rows = read(log)
    assert [int(row["step"]) for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [float(row["loss"]) for row in rows] == losses
    assert [float(row[RATE]) for row in rows] == pytest.approx([0.001] * 3 + [0.25] * 3)
    assert all(0 <= float(row["share"]) <= 1 and float(row["seconds"]) > 0 for row in rows)


def test_a_run_of_several_steps_logs_each_of_them(tmp_path: Path) -> None:
    exported(steps=2, dynamic_shapes=None).save(tmp_path / "step.onnx")
    numbers = np.random.default_rng(0)
    batch = {
        "x": numbers.standard_normal((2, 5, 6), np.float32),
        "y": numbers.integers(0, 3, (2, 5)),
        "scale": np.ones(2, np.float32),
    }
    losses = opened(tmp_path / "step.onnx").fit([batch, batch], log=tmp_path / "run.csv")
    rows = read(tmp_path / "run.csv")
    assert [int(row["step"]) for row in rows] == [1, 2, 3, 4]
    assert [float(row["loss"]) for row in rows] == losses


def test_a_value_for_each_row_is_none_for_the_log_in_a_batch_of_one(tmp_path: Path) -> None:
    def by_rows(model: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        rows = model(x).square().mean(1)
        return rows.mean(), {"rows": rows, "largest": rows.max()}

    model = nn.Linear(6, 3)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    program = export_training_step(model, optimizer, by_rows, (torch.randn(5, 6),), dynamic_shapes=({0: "batch"},))
    program.save(tmp_path / "step.onnx")
    session = opened(tmp_path / "step.onnx")
    session.fit([{"x": np.ones((count, 6), np.float32)} for count in (4, 1, 2)], log=tmp_path / "run.csv")
    assert [set(row) for row in read(tmp_path / "run.csv")] == [{"step", "loss", "largest", "seconds", "lr/0"}] * 3


def test_the_progress_tells_step_and_loss(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    losses = opened(saved).fit(list(data(2)), progress=True)
    shown = capsys.readouterr().out
    assert f"step 2/2  loss {losses[-1]:.5g}  share" in shown


def test_state_in_bfloat16_is_saved_and_resumed(tmp_path: Path) -> None:
    model = nn.Linear(6, 3, dtype=torch.bfloat16)

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x.bfloat16()).float().square().mean()

    program = export_training_step(model, optim.SGD(model.parameters(), lr=0.1), loss, (torch.randn(4, 6),))
    program.save(tmp_path / "step.onnx")
    session, again = opened(tmp_path / "step.onnx"), opened(tmp_path / "step.onnx")
    batch = {"x": np.ones((4, 6), np.float32)}
    session.step(batch)
    session.save(tmp_path / "run.safetensors")
    again.resume(tmp_path / "run.safetensors")
    assert session.state()["param/weight"].dtype == ml_dtypes.bfloat16
    assert_same(again, session)
    assert session.step(batch) == again.step(batch)


class BySize(nn.Module):
    """Of small batches it does something else, which a step limits."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        return y if x.shape[0] > 4 else y * 0.1


def test_a_size_that_the_report_leaves_out_is_refused(tmp_path: Path) -> None:
    model = BySize()
    step = export_training_step(
        model,
        optim.SGD(model.parameters(), lr=0.1),
        lambda model, x: model(x).square().mean(),
        (torch.randn(6, 6),),
        dynamic_shapes=({0: "batch"},),
    )
    step.save(tmp_path / "step.onnx")
    session = TrainingSession(tmp_path / "step.onnx")
    session.step({"x": np.ones((7, 6), np.float32)})
    with pytest.raises(RefusedInput, match="has the size 2 for 'batch'; the model is known to be right for at least 5"):
        session.step({"x": np.ones((2, 6), np.float32)})
    assert session.steps == 1
