"""Padding between transposes: ONNX Runtime moves the transposes, and must find the amounts of every axis."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fxport import export
from tests.running import assert_same, run_session, session_of

X = torch.randn(2, 8, 6, 3, generator=torch.Generator().manual_seed(0))


class Padded(nn.Module):
    """As VOLO's outlook attention has it: channels first for a moment."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = F.pad(self.linear(x).permute(0, 3, 1, 2), (1, 2, 0, 1), mode=self.mode)
        return self.linear(y.permute(0, 2, 3, 1))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate"])
@pytest.mark.parametrize("shapes", [None, ({1: "height", 2: "width"},)], ids=["static", "dynamic"])
def test_padding_between_transposes_runs_with_all_optimizations(mode: str, shapes: object) -> None:
    model = Padded(mode)
    program = export(model, (X,), dynamic_shapes=shapes)
    with torch.no_grad():
        assert_same(run_session(session_of(program), program, (X,)), [model(X)])
