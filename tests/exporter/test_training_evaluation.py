"""`evaluate=True`: the model in eval mode as a second graph, on the weights of the session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn, optim

from fxport import ExportError
from fxport.exporter.training import TrainingError, export_training_step, load_into
from fxport.exporter.training.seeded import SeededRandom
from fxport.ort_runner.train import TrainingSession
from fxport.ort_runner.train_evaluate import NoEvaluation
from fxport.ort_runner.train_inputs import RefusedInput
from tests.training import batches, classify

ROWS = ({0: "batch"}, {0: "batch"})


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 4)).train()


def judged(model: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    logits = model(x)
    return nn.functional.cross_entropy(logits, y), {"logits": logits, "right": (logits.argmax(-1) == y).sum()}


def saved(folder: Path, loss: Any = judged, model: nn.Module | None = None, **how: Any) -> TrainingSession:
    model = model or net()
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    program = export_training_step(model, optimizer, loss, batches(6)[0], dynamic_shapes=ROWS, **how)
    assert all(module.training for module in model.modules())
    program.save(folder / "step.onnx")
    return TrainingSession(folder / "step.onnx", provider="cpu", seed=5)


def fed(batch: tuple[Tensor, ...]) -> dict[str, np.ndarray]:
    return {"x": batch[0].numpy(), "y": batch[1].numpy()}


def test_evaluation_is_that_of_eager_pytorch_between_steps(tmp_path: Path) -> None:
    session, model = saved(tmp_path, evaluate=True), net()
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    for batch in batches(6, 5, 1, 9):
        got = session.evaluate(fed(batch))
        load_into(model, optimizer, session.state())
        with torch.no_grad():
            loss, extras = judged(model.eval(), *batch)
        assert set(got) == {"loss", "logits", "right"}
        np.testing.assert_allclose(got["loss"], loss.numpy(), rtol=2e-6)
        np.testing.assert_allclose(got["logits"], extras["logits"].numpy(), rtol=1e-5, atol=1e-6)
        assert got["right"] == extras["right"].item()
        if len(batch[1]) > 1:
            session.step(fed(batch))


def test_an_evaluation_changes_nothing(tmp_path: Path) -> None:
    session, (batch, other) = saved(tmp_path, evaluate=True), batches(6, 6)
    before = session.state()
    first = session.evaluate(fed(batch))
    np.testing.assert_equal(session.evaluate(fed(batch)), first)
    np.testing.assert_equal(session.state(), before)
    after = session.step(fed(other)), session.state()
    session.load(before)
    np.testing.assert_equal((session.step(fed(other)), session.state()), after)


def test_the_graph_holds_no_weights(tmp_path: Path) -> None:
    saved(tmp_path, evaluate=True, model=nn.Sequential(nn.Linear(8, 20_000), nn.Linear(20_000, 4)).train())
    assert (tmp_path / "step.evaluate.onnx").stat().st_size < 100_000
    assert {each.name for each in tmp_path.iterdir()} == {"step.onnx", "step.state.safetensors", "step.evaluate.onnx"}


def test_another_function_may_judge(tmp_path: Path) -> None:
    session = saved(tmp_path, loss=classify, evaluate=lambda model, x, y: (model(x).argmax(-1) == y).float().mean())
    assert set(session.evaluate(fed(batches(6)[0]))) == {"loss"}


def test_what_is_drawn_follows_the_seed(tmp_path: Path) -> None:
    def noisy(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return classify(model, x + torch.randn_like(x), y)

    model = net()
    session, batch = saved(tmp_path, loss=noisy, model=model, evaluate=True), batches(6)[0]
    with torch.no_grad(), SeededRandom(torch.tensor(5)):
        want = noisy(model.eval(), *batch)
    np.testing.assert_allclose(session.evaluate(fed(batch))["loss"], want.numpy(), rtol=2e-6)


def test_a_step_without_an_evaluation_says_so(tmp_path: Path) -> None:
    session = saved(tmp_path)
    with pytest.raises(NoEvaluation, match="evaluate=True"):
        session.evaluate(fed(batches(6)[0]))


def test_a_wrong_batch_is_refused_by_its_name(tmp_path: Path) -> None:
    session, batch = saved(tmp_path, evaluate=True), fed(batches(6)[0])
    for wrong in ({**batch, "z": 1}, {"x": batch["x"]}, {**batch, "x": batch["x"][:, :3]}, {**batch, "y": []}):
        with pytest.raises(RefusedInput):
            session.evaluate(wrong)


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.layer(x)


def test_a_buffer_that_an_evaluation_would_change_is_refused() -> None:
    model = Counts()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ExportError) as raised:
        export_training_step(model, optimizer, classify, batches(6)[0], evaluate=True)
    (told,) = [each for each in raised.value.log.findings if each.fixes]
    assert "self.training" in told.fixes[0].description
    assert told.place is not None
    assert told.place.path == __file__


def test_micro_batches_of_dynamic_sizes_are_refused() -> None:
    model = net()
    batch = tuple(torch.stack([each, each]) for each in batches(6)[0])
    with pytest.raises(TrainingError, match="accumulate=1"):
        export_training_step(
            model,
            optim.SGD(model.parameters()),
            classify,
            batch,
            accumulate=2,
            evaluate=True,
            dynamic_shapes=({1: "n"},) * 2,
        )
