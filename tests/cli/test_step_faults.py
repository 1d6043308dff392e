"""Faults planted in a training step: the finding names the part of the step and the user's line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from fxport import Options
from fxport.diagnostics import Finding, Log
from fxport.exporter.training import export_training_step
from fxport.exporter.validation.training_step import validated
from fxport.fx_passes import pipeline
from fxport.ort_runner.judging import LOCATABLE
from tests.cases.faults import InFxPass, InLowering, scaled, set_argument

aten = torch.ops.aten


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        hidden = torch.tanh(hidden)
        return self.second(hidden)


class Halving(torch.optim.Optimizer):
    """An optimizer of one's own."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # without a closure
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.copy_(parameter - torch.sign(parameter.grad) * group["lr"])


def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return mse_loss(model(x), y)


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.1)


@dataclass(frozen=True)
class Row:
    """A fault, and what the finding has to say: the part, and the text of the line."""

    where: InLowering | InFxPass
    part: str
    line: str
    optimizer: Callable[[Any], torch.optim.Optimizer] = adamw


ROWS = {
    "forward": Row(InLowering(aten.tanh.default, 0, scaled(1.1)), "forward", "hidden = torch.tanh(hidden)"),
    "loss": Row(InLowering(aten.mean.default, 0, scaled(1.1)), "forward", "return mse_loss(model(x), y)"),
    "backward": Row(InLowering(aten.mm.default, 1, scaled(0.5)), "backward", "return self.second(hidden)"),
    "backward of the first layer": Row(InLowering(aten.mm.default, 2, scaled(0.5)), "backward", "self.first(x)"),
    "pass in backward": Row(InFxPass(aten.rsub.Scalar, 0, set_argument(1, 2)), "backward", "torch.tanh(hidden)"),
    "optimizer": Row(InLowering(aten.addcdiv.default, 1, scaled(0.9)), "optimizer of 'first.bias'", "self.first(x)"),
    "own optimizer": Row(
        InLowering(aten.sign.default, 2, scaled(0.5)),
        "optimizer of 'second.weight'",
        "parameter.copy_(parameter - torch.sign(parameter.grad) * group",
        Halving,
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_a_fault_is_blamed_on_its_part_at_its_line(row: Row, tmp_path: Path) -> None:
    findings = findings_of(row, tmp_path)
    assert findings
    for finding in findings:
        assert str(finding.facts["cause"]).startswith(f"{row.part}, "), finding.message
        assert finding.place is not None
        assert row.line in Path(finding.place.path).read_text(encoding="utf-8").splitlines()[finding.place.line - 1]


def findings_of(row: Row, folder: Path) -> list[Finding]:
    """Export with the fault in it, and validate."""
    step = step_of(row.optimizer)
    names = [name for name, target in nodes_of(row.optimizer) if target is row.where.target]
    lowerings = row.where.lowerings(names) if isinstance(row.where, InLowering) else {}
    log = Log()
    with harmed(row.where, names):
        program = export_training_step(*step, options=Options(lowerings=lowerings), log=log)
        output = folder / "step.onnx"
        program.save(output)
        validated(output, "step", program, "cpu", log)
    return [finding for finding in log.findings if finding.rule in LOCATABLE]


def step_of(optimizer: Callable[[Any], torch.optim.Optimizer]) -> tuple[Any, ...]:
    torch.manual_seed(0)
    model = Net()
    return model, optimizer(model.parameters()), loss, (torch.randn(6, 4), torch.randn(6, 3))


@cache
def nodes_of(optimizer: Callable[[Any], torch.optim.Optimizer]) -> list[tuple[str, Any]]:
    """Name and target of every node of the step without a fault."""
    graph = export_training_step(*step_of(optimizer)).program.graph_module.graph
    return [(node.name, node.target) for node in graph.nodes]


@contextmanager
def harmed(where: InLowering | InFxPass, names: list[str]) -> Iterator[None]:
    """While it lasts, a broken FX pass is the last one, if the fault is one."""
    passes = (where.fx_pass(names),) if isinstance(where, InFxPass) else ()
    with mock.patch.object(pipeline, "NORMALIZE", (*pipeline.NORMALIZE, *passes)):
        yield
