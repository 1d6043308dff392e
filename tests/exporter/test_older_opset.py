"""The opset of a file: older where that gives an operator its kernel on CUDA, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

from fxport import Options, export
from fxport.exporter.pipeline.options import DEFAULT_OPSET
from tests.running import assert_same, run_session, session_of

POOLED = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ELU(), nn.MaxPool2d(2))
IMAGE = torch.randn(2, 3, 12, 12)


class Attending(nn.Module):
    """Attention is an operator from opset 23 on."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(*[nn.functional.max_pool2d(x, 2)] * 3)


def opset_of(model: nn.Module, x: torch.Tensor, options: Options = Options()) -> int:  # noqa: B008  # frozen
    return export(model.eval(), (x,), options=options).model.opset_imports[""]


@pytest.mark.parametrize(
    ("model", "x", "opset"),
    [
        (POOLED, IMAGE, 21),
        (nn.Conv2d(3, 4, 3), IMAGE, DEFAULT_OPSET),
        (nn.Sequential(nn.MaxPool2d(2), nn.GELU(), nn.Softplus()), IMAGE, 21),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2)).bfloat16(), IMAGE.bfloat16(), DEFAULT_OPSET),
        (Attending(), torch.randn(1, 2, 8, 8), DEFAULT_OPSET),
    ],
    ids=["pooling", "nothing to gain", "others keep theirs", "bfloat16 is newer", "attention is newer"],
)
def test_opset(model: nn.Module, x: torch.Tensor, opset: int) -> None:
    assert opset_of(model, x) == opset


@pytest.mark.parametrize("asked", [18, 23, 24])
def test_an_opset_that_is_asked_for_stays(asked: int) -> None:
    assert opset_of(POOLED, IMAGE, Options(opset=asked)) == asked


def test_the_file_is_whole(tmp_path: Path) -> None:
    """With a body, and a function of its own opset."""

    class Both(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = POOLED(x)
            return nn.functional.elu(y) if y.sum() > 0 else nn.functional.selu(y)

    path = tmp_path / "model.onnx"
    program = export(Both(), (IMAGE,))
    program.save(path)
    file = onnx.load(path)
    onnx.checker.check_model(file, full_check=True)
    assert [each.version for each in file.opset_import] == [21]
    assert_same(run_session(session_of(program), program, (IMAGE,)), [Both()(IMAGE)])
