"""Tensors in and out where they lie, and state that stays there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fxport import export
from fxport.diagnostics import rules
from fxport.ort_runner import DeviceSession
from fxport.ort_runner.failures import Failure


class Smoothed(torch.nn.Module):
    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.mean.mul_(0.9).add_(x.float().mean(0))
        return torch.where(mask, x + self.mean.to(x.dtype), 0.0), mask


@pytest.fixture
def model(tmp_path: Path) -> Path:
    x, mask = torch.randn(3, 4, dtype=torch.bfloat16), torch.tensor([True, False, True, True])
    return export(Smoothed(), (x, mask), dynamic_shapes=({0: "rows"}, None)).save(tmp_path / "model.onnx")[0]


def test_tensors_go_in_and_out_by_dlpack(model: Path) -> None:
    """Also those of types that NumPy lacks; the state goes round, until it is reset."""
    session, eager = DeviceSession(model, "cpu", threads=1), Smoothed()
    mask = torch.tensor([True, False, True, True])
    first = None
    for rows in (3, 5, 2):
        x = torch.randn(rows, 4, dtype=torch.bfloat16)
        found, want = session.run({"x": x, "mask": mask}), eager(x, mask)
        y, same = (torch.from_dlpack(found[name]) for name in ("output.0", "output.1"))
        torch.testing.assert_close(y, want[0])
        assert torch.equal(same.bool(), want[1])  # DLPack gives booleans as bytes
        np.testing.assert_array_equal(found["output.1"].numpy(), mask.numpy())
        first = first if first is not None else (x, y.clone())
    assert first is not None
    session.reset()
    again = torch.from_dlpack(session.run({"x": first[0], "mask": mask})["output.0"])
    assert torch.equal(again, first[1])


def test_nothing_is_copied() -> None:
    """What ONNX Runtime is given begins where the tensor does."""
    from fxport.ort_runner import device

    x = torch.randn(3, 4, dtype=torch.bfloat16)
    assert device._ort_value(x).data_ptr() == x.data_ptr()
    mask = torch.tensor([True, False])
    assert device._ort_value(mask).data_ptr() == mask.data_ptr()
    assert device._ort_value(mask).element_type() == 9


def test_what_does_not_fit_is_a_failure(model: Path) -> None:
    with pytest.raises(Failure) as failed:
        DeviceSession(model, "cpu").run({"x": torch.randn(3, 4), "mask": torch.tensor([True] * 4)})
    assert failed.value.rule in (rules.RUNTIME_FAILED, rules.CONTRACT_BROKEN)
    with pytest.raises(ValueError, match="no execution provider"):
        DeviceSession(model, "gpu")
