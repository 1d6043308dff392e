"""What two ranks saved is read by one process without a group: every weight and every state of the optimizer, whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fxport import export
from fxport.exporter.capture.fake import without_memory
from fxport.exporter.weights import open_checkpoint
from tests.distributed.checkpoints import Net
from tests.distributed.spawn import spawn


@pytest.mark.parametrize("way", ["fsdp", pytest.param("tensor", marks=pytest.mark.slow)])
def test_a_checkpoint_of_two_ranks(way: str, tmp_path: Path) -> None:
    folder = tmp_path / "step-1"
    first, second = spawn("tests.distributed.checkpoints", "saved", 2, str(folder), way)
    assert (first.code, second.code) == (0, 0), first.output + second.output
    weights, state = first.result
    found = open_checkpoint(folder)
    assert {f"model.{name}" for name in weights} == set(found.tensors)
    for name, want in weights.items():
        np.testing.assert_array_equal(found.tensors[f"model.{name}"].read().numpy(), want)
    assert {f"{parameter}/{key}" for parameter, key in found.optimizer} == set(state)
    for (parameter, key), stored in found.optimizer.items():
        np.testing.assert_array_equal(stored.read().numpy(), state[f"{parameter}/{key}"])
    with without_memory():
        model = Net().eval()
    program = export(model, (torch.ones(2, 6),), weights=folder)
    held = {name: value.const_value for name, value in program.model.graph.initializers.items()}
    np.testing.assert_array_equal(held["out.bias"].numpy(), weights["out.bias"])  # type: ignore[union-attr]
