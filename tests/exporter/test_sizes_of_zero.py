"""Sizes that are 0 when the model runs, at models that PyTorch has captured for sizes of 2 or more."""

from __future__ import annotations

from pathlib import Path

import onnxruntime as ort
import pytest
import torch
from torch import Tensor, nn

from fxport import export


class Rows(nn.Module):
    """A product of all rows at once, as quantized layers make them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, channels = x.shape
        return self.linear(x.reshape(-1, channels)).view(batch, length, channels)


class Heads(nn.Module):
    """Heads that are a part of the batch for a while."""

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        heads = x.view(batch, length, 2, 4).transpose(1, 2).reshape(batch * 2, length, 4)
        return torch.sin(heads).view(batch, 2, length, 4)


@pytest.mark.parametrize("model", [Rows(), Heads()], ids=["rows", "heads"])
def test_a_result_has_the_size_of_the_run(model: nn.Module, tmp_path: Path) -> None:
    program = export(model.eval(), (torch.ones(2, 4, 8),), dynamic_shapes={"x": {0: "batch", 1: "length"}})
    path = tmp_path / "model.onnx"
    program.save(path)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    for shape in ((2, 4, 8), (2, 0, 8), (0, 4, 8), (0, 0, 8), (1, 2, 8)):
        x = torch.ones(shape)
        (found,) = session.run(None, {"x": x.numpy()})
        assert found.shape == model(x).shape
