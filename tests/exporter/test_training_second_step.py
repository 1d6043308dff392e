"""The validation of a training step sees faults that a first step, whose state is zeros, does not show."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest
import torch
from onnx_ir.convenience import replace_all_uses_with
from torch import nn, optim

from fxport.diagnostics import Log
from fxport.exporter.training import TrainingProgram, export_training_step
from fxport.exporter.validation.training_step import SECOND, validated
from tests.training import batches, classify


def step(path: Path) -> TrainingProgram:
    torch.manual_seed(0)
    model = nn.Linear(8, 4)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    program = export_training_step(model, optimizer, classify, batches(16)[0])
    program.save(path)
    return program


def forget(program: TrainingProgram, name: str) -> None:
    """Make the graph read zeros in place of a state."""
    graph = program.model.graph
    value = next(each for each in graph.inputs if each.name == name)
    held = program.state[name]
    zeros = ir.node("Constant", [], attributes={"value": ir.tensor(torch.zeros_like(held).numpy())})
    graph.insert_before(graph[0], zeros)
    replace_all_uses_with(value, zeros.outputs[0])


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_state_that_is_zero_at_first_is_compared_where_it_is_not(forgotten: bool, tmp_path: Path) -> None:
    path, log = tmp_path / "step.onnx", Log()
    program = step(path)
    if forgotten:
        forget(program, "opt/weight/momentum_buffer")
        program.save(path)
    validation = validated(path, "step", program, "cpu", log)
    assert validation is not None
    assert validation.passed is not forgotten
    wrong = {each.label for each in validation.samples if any(gap.ratio > 1 for gap in each.gaps.values())}
    assert (SECOND in wrong) is bool(wrong) is forgotten
    assert "sample" not in wrong  # from zeros, as the broken graph has it
