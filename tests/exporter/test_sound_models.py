"""Models that are right and that rounding makes awkward: their validation finds no difference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fxport import export
from fxport.exporter.validation.validated import export_and_validate
from fxport.ort_runner.session import LocalSession
from tests.cases.subtle import Calls

ROWS = {0: torch.export.Dim.DYNAMIC}


def points(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(0), dtype=dtype)


SOUND: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "a long row of halves": (lambda x: F.layer_norm(x, x.shape[-1:]), points(8, 4096) * 3 + 2),
    "a long group of halves": (lambda x: F.group_norm(x, 1), points(2, 3, 64, 64)),
    "an offset of many pixels": (F.instance_norm, points(1, 2, 256, 256) + 100),
    "a small number": (lambda x: x / x.abs().clamp(min=1e-300), points(4, 8, dtype=torch.float64)),
    "the least number": (lambda x: x.clamp(min=5e-324), points(4, 8, dtype=torch.float64)),
    "the largest number": (lambda x: x.clamp(max=1.7e308), points(4, 8, dtype=torch.float64)),
    "no distance in float64": (lambda x: torch.cdist(x, x), points(6, 8, dtype=torch.float64)),
}


@pytest.mark.parametrize("name", SOUND)
def test_no_difference_is_found(name: str, tmp_path: Path) -> None:
    function, x = SOUND[name]
    path = tmp_path / "model.onnx"
    done = export_and_validate(Calls(function), (x,), path=path, provider="cpu", dynamic_shapes=((ROWS,),))
    assert done.validation is not None
    assert done.validation.equal, done.validation.doubts


def test_what_is_only_rounding_in_float64_is_a_doubt(tmp_path: Path) -> None:
    """The determinant of a matrix that has none but 0."""
    x = points(6, 8, dtype=torch.float64)
    model, path = Calls(lambda x: torch.linalg.det(x.T @ x)), tmp_path / "model.onnx"
    done = export_and_validate(model, (x,), path=path, provider="cpu")
    assert done.validation is not None
    assert done.validation.doubts == {"output": "FXP5011"}


def test_instance_norm_is_as_exact_as_pytorchs_beside_an_offset(tmp_path: Path) -> None:
    x = points(1, 2, 256, 256) + 100
    path = export(Calls(F.instance_norm), (x,)).save(tmp_path / "model.onnx")[0]
    with LocalSession(path, "cpu") as session:
        port = session.open().inputs[0]
        got = session.run({port.name: x.numpy()})["output"]
    exact = F.instance_norm(x.double()).numpy()
    own, error = (np.abs(each - exact).max() for each in (F.instance_norm(x).numpy(), got))
    assert error <= 4 * own
