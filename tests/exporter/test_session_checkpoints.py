"""Checkpoints of sessions are read by exports and by PyTorch; state of any memory format is saved."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn, optim

from fxport import export
from fxport.exporter.training import as_tensor, export_training_step, load_into, state_from
from fxport.ort_runner.session import LocalSession
from fxport.ort_runner.train import TrainingSession
from fxport.ort_runner.train_inputs import RefusedInput
from tests.training import OPTIMIZERS, batches, classify, fed, opened

Make = Callable[[Any], optim.Optimizer]


class Tied(nn.Module):
    """A tied weight, statistics of batch norm, and a buffer that is in no state dict."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
        self.again.weight = self.first.weight
        self.norm, self.last = nn.BatchNorm1d(8), nn.Linear(8, 4)
        self.register_buffer("scale", torch.tensor(2.0), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.norm(self.again(self.first(x).tanh())) * self.scale)


def made(make: Make) -> tuple[Tied, optim.Optimizer]:
    torch.manual_seed(0)
    model = Tied().train()
    return model, make(list(model.parameters()))


def eager_steps(model: nn.Module, optimizer: optim.Optimizer, data: list[Any]) -> None:
    for batch in data:
        optimizer.zero_grad()
        classify(model, *batch).backward()
        optimizer.step()


def assert_near(model: nn.Module, optimizer: optim.Optimizer, session: TrainingSession) -> None:
    state = session.state()
    for name, value in state_from(model, optimizer).items():
        np.testing.assert_allclose(state[name], value, rtol=1e-4, atol=3e-6, err_msg=name)


@pytest.mark.parametrize("name", ["adamw", "dampening", "amsgrad"])
def test_state_dicts_of_a_session_load_into_the_model_and_its_optimizer(name: str, tmp_path: Path) -> None:
    make, data = OPTIMIZERS[name], batches(*[16] * 4)
    session = opened(export_training_step(*made(make), classify, data[0]), tmp_path)
    for number in (0, 2):
        session.fit([fed(("x", "y"), batch) for batch in data[:number]])
        model, optimizer = made(make)
        states = session.state_dict(torch.from_numpy)
        assert model.load_state_dict(states["model"]) == nn.modules.module._IncompatibleKeys([], [])
        optimizer.load_state_dict(states["optimizer"])
        twin = copy.deepcopy(model)
        of_twin = make(list(twin.parameters()))
        load_into(twin, of_twin, session.state())
        again = TrainingSession(tmp_path / "step.onnx", session.state(), provider="cpu")
        again.fit([fed(("x", "y"), batch) for batch in data[2:]])
        eager_steps(model, optimizer, data[2:])
        eager_steps(twin, of_twin, data[2:])
        assert_near(model, optimizer, again)
        torch.testing.assert_close(dict(twin.named_parameters()), dict(model.named_parameters()))


def test_state_dicts_have_the_rates_of_the_session_and_numbers_of_pythons(tmp_path: Path) -> None:
    model = nn.Linear(8, 4)
    optimizer = optim.Adam([{"params": [model.weight], "lr": 0.1}, {"params": [model.bias], "betas": (0.5, 0.6)}])
    eager_steps(model, optimizer, batches(8))
    for held in optimizer.state.values():
        held["step"] = int(held["step"])
    session = opened(export_training_step(model, optimizer, classify, batches(8)[0]), tmp_path)
    session.rates["lr/1"] = 0.25
    written = session.state_dict(as_tensor)["optimizer"]
    wanted = optimizer.state_dict()
    wanted["param_groups"][1]["lr"] = 0.25
    assert written["param_groups"] == [{**group, "lr": pytest.approx(group["lr"])} for group in wanted["param_groups"]]
    assert written["state"][1]["step"] == 1
    assert isinstance(written["state"][1]["step"], int)


def test_settings_that_no_file_holds_are_told(tmp_path: Path) -> None:
    model = nn.Linear(8, 4)
    optimizer = optim.SGD([{"params": list(model.parameters()), "schedule": print}], lr=0.1)
    session = opened(export_training_step(model, optimizer, classify, batches(8)[0]), tmp_path)
    with pytest.raises(RefusedInput, match="use load_into"):
        session.state_dict()


@pytest.mark.parametrize("name", ["adamw", "dampening"])
def test_training_begins_in_a_sessions_checkpoint(name: str, tmp_path: Path) -> None:
    data = batches(*[16] * 4)
    session = opened(export_training_step(*made(OPTIMIZERS[name]), classify, data[0]), tmp_path)
    for number in range(2):
        session.save(tmp_path / "run.safetensors")
        (tmp_path / str(number)).mkdir()
        parts = made(OPTIMIZERS[name])
        program = export_training_step(*parts, classify, data[0], weights=tmp_path / "run.safetensors")
        assert [finding.rule.name for finding in program.log.findings if finding.rule.id[:4] == "FXP7"] == []
        for key, value in opened(program, tmp_path / str(number)).state().items():
            np.testing.assert_array_equal(value, session.state()[key], err_msg=key)
        session.step(fed(("x", "y"), data[number]))


def test_dampening_goes_on_from_a_checkpoint_of_pytorch(tmp_path: Path) -> None:
    make, data = OPTIMIZERS["dampening"], batches(*[16] * 4)
    model, optimizer = made(make)
    eager_steps(model, optimizer, data[:2])
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "last.pt")
    session = opened(export_training_step(*made(make), classify, data[0], weights=tmp_path / "last.pt"), tmp_path)
    session.fit([fed(("x", "y"), batch) for batch in data[2:]])
    eager_steps(model, optimizer, data[2:])
    assert_near(model, optimizer, session)


def test_a_model_takes_its_weights_from_a_sessions_checkpoint(tmp_path: Path) -> None:
    data = batches(*[16] * 3)
    model, optimizer = made(OPTIMIZERS["adamw"])
    session = opened(export_training_step(model, optimizer, classify, data[0]), tmp_path)
    session.fit([fed(("x", "y"), batch) for batch in data])
    session.save(tmp_path / "run.safetensors")
    fresh = Tied().eval()
    program = export(fresh, (data[0][0],), weights=tmp_path / "run.safetensors")
    assert [finding.rule.name for finding in program.log.findings if finding.rule.id[:4] == "FXP7"] == []
    program.save(tmp_path / "model.onnx")
    load_into(model, None, session.state())
    with LocalSession(tmp_path / "model.onnx", "cpu") as runner:
        (given,) = (port.name for port in runner.open().inputs)
        (result,) = runner.run({given: data[0][0].numpy()}).values()
    np.testing.assert_allclose(result, model.eval()(data[0][0]).detach().numpy(), rtol=1e-4, atol=1e-5)


class Strided(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 4, 3), nn.Linear(4, 4)
        nn.init.orthogonal_(self.last.weight)
        self.last.weight.data = self.last.weight.data.t()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.conv(x).amax((2, 3)))


def test_state_out_of_order_in_memory_is_saved(tmp_path: Path) -> None:
    model = Strided().to(memory_format=torch.channels_last)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = batches(4, 4, shape=(3, 5, 5))
    assert not model.conv.weight.is_contiguous()
    assert not model.last.weight.is_contiguous()
    session = opened(export_training_step(model, optimizer, classify, data[0]), tmp_path)
    np.testing.assert_array_equal(session.state()["param/last.weight"], model.last.weight.detach().numpy())
    session.fit([fed(("x", "y"), batch) for batch in data])
    eager_steps(model, optimizer, data)
    assert_near(model, optimizer, session)


def test_a_save_that_fails_leaves_neither_model_nor_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(8, 4)
    program = export_training_step(model, optim.SGD(model.parameters(), lr=0.1), classify, batches(4)[0])

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fxport.exporter.onnx_program.program.save", full)
    with pytest.raises(OSError, match="No space left"):
        program.save(tmp_path / "step.onnx")
    monkeypatch.undo()
    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(OSError, match="No space left"):
        program.save(tmp_path / "step.onnx")
    assert list(tmp_path.iterdir()) == []


def test_state_in_bfloat16_comes_back_to_pytorch(tmp_path: Path) -> None:
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x.bfloat16()).float().square().mean()

    model = nn.Linear(6, 3, dtype=torch.bfloat16)
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    program = export_training_step(model, optimizer, loss, (torch.randn(4, 6),))
    session = opened(program, tmp_path)
    session.step({"x": np.ones((4, 6), np.float32)})
    session.load(session.state())
    fresh = nn.Linear(6, 3, dtype=torch.bfloat16)
    fresh.load_state_dict(session.state_dict(as_tensor)["model"])
    load_into(model, optimizer, session.state())
    assert torch.equal(fresh.weight, model.weight)
    np.testing.assert_array_equal(state_from(model, optimizer)["param/weight"], session.state()["param/weight"])
