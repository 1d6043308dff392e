"""An export inside of `torch.autocast` gives what the model is there, and leaves the region as it was."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, export
from tests.running import assert_same, run_session, session_of


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 3), nn.LayerNorm(3), nn.Conv1d(3, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.norm(self.first(x))
        return y, self.last(y[..., None]).float()


def test_what_autocast_makes_of_a_model_is_exported() -> None:
    model, x = Layers(), torch.randn(2, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        program = export(model, x, dynamic_shapes=({0: "n"},))
        assert torch.is_autocast_enabled("cpu")
        other = torch.randn(5, 4)
        with torch.no_grad():
            want = list(model(other))
    assert want[0].dtype is torch.bfloat16
    assert "forward" not in vars(model)
    assert_same(run_session(session_of(program), program, (other,)), want, tol=(1e-2, 1e-2))


class Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.to_sparse()


def test_the_region_stays_after_a_failure() -> None:
    with torch.autocast("cpu", dtype=torch.float16):
        with pytest.raises(ExportError):
            export(Failing(), torch.ones(3))
        assert torch.is_autocast_enabled("cpu")
        assert torch.get_autocast_dtype("cpu") is torch.float16


class Exact(nn.Module):
    """Parts that autocast would make coarse, as a library turns it off for them."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", enabled=False):
            angles = x.cumsum(1)
            with torch.no_grad():
                scale = x.amax(1, keepdim=True)
        return angles, (angles / scale).relu_()


def test_a_region_without_autocast_costs_no_second_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.export.ExportedProgram, "run_decompositions")
    model, x = Exact(), torch.rand(2, 4)
    program = export(model, x, dynamic_shapes=({0: "n"},))
    other = torch.rand(5, 4)
    assert_same(run_session(session_of(program), program, (other,)), list(model(other)))
