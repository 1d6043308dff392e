"""A training step that begins where a checkpoint ends: its state is that of PyTorch's, and so are its next steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict

from fxport import ExportError
from fxport.exporter.training import export_training_step, load_into
from fxport.ort_runner.train import TrainingSession
from tests.exporter.checkpoints import to_dcp_of

X, Y = torch.rand(16, 4, generator=torch.Generator().manual_seed(0)), torch.ones(16, 2)


class Net(nn.Module):
    def __init__(self, last: str = "last") -> None:
        super().__init__()
        self.first = nn.Linear(4, 8, bias=False)  # before batch norm, its gradient would be rounding alone
        self.norm = nn.BatchNorm1d(8)
        setattr(self, last, nn.Linear(8, 2))
        self.last_name = last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(self, self.last_name)(self.norm(self.first(x)))


def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.mse_loss(model(x), y)


def trained(steps: int = 3) -> tuple[Net, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    for _ in range(steps):
        step(model, optimizer)
    return model, optimizer


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> float:
    optimizer.zero_grad()
    value = loss(model, X, Y)
    value.backward()
    optimizer.step()
    return value.item()


def to_dcp(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> Path:
    states = get_state_dict(model, optimizer)
    return to_dcp_of(dict(zip(("model", "optim"), states, strict=True)), folder)


def to_torch(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> Path:
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / "last.pt")
    return folder / "last.pt"


@pytest.mark.parametrize("save", [to_dcp, to_torch], ids=lambda save: save.__name__)
def test_the_next_steps_are_those_of_pytorch(save: Callable[..., Path], tmp_path: Path) -> None:
    model, optimizer = trained()
    path = save(model, optimizer, tmp_path)
    fresh, begun = trained(0)
    program = export_training_step(fresh, begun, loss, (X, Y), weights=path)
    session = TrainingSession(program.save(tmp_path / "step.onnx")[0])
    got = session.fit([{"x": X.numpy(), "y": Y.numpy()}] * 3)
    wanted = [step(model, optimizer) for _ in range(3)]
    torch.testing.assert_close(
        torch.tensor([float(value) for value in got]), torch.tensor(wanted)
    )  # float32, as they are
    load_into(fresh, None, session.state())
    torch.testing.assert_close(fresh.state_dict(), model.state_dict())


def test_state_of_a_parameter_that_the_model_lacks(tmp_path: Path) -> None:
    path = to_dcp(*trained(), tmp_path)
    model = Net("final")
    optimizer = torch.optim.AdamW(model.parameters())
    with pytest.raises(ExportError) as raised:
        export_training_step(model, optimizer, loss, (X, Y), weights=path)
    said = {(finding.rule.name, finding.facts["name"]) for finding in raised.value.log.findings}
    assert ("WeightUnused", "opt/last.weight/exp_avg") in said
    assert ("WeightMissing", "opt/final.weight/exp_avg") in said
    assert ("WeightMissing", "final.bias") in said


def test_a_checkpoint_without_an_optimizer_is_told_and_its_state_begins_anew(tmp_path: Path) -> None:
    model, _ = trained()
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    fresh, begun = trained(0)
    program = export_training_step(fresh, begun, loss, (X, Y), weights=tmp_path / "weights.pt")
    assert [(f.rule.name, f.level.value) for f in program.log.findings if f.rule.id.startswith("FXP701")] == [
        ("WeightMissing", "warning")
    ]
    assert torch.equal(program.state["param/first.weight"], model.first.weight)
    assert not program.state["opt/first.weight/exp_avg"].any()
