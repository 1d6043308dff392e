"""Scripts written for torch.onnx run with fxport after one import is changed; eager PyTorch is the reference."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path

import onnxruntime
import pytest
import torch

FOLDER = Path(__file__).resolve().parent.parent / "cases" / "dropin"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
NEEDS_ONNXSCRIPT = {"custom_operator"}
WITHOUT = pytest.mark.skipif(importlib.util.find_spec("onnxscript") is None, reason="onnxscript is not installed")


def with_fxport(source: str) -> str:
    """The script with another import."""
    together, alone = "from torch import nn, onnx\n", "from torch import nn\n\nfrom fxport import onnx\n"
    assert source.count(together) == 1
    return source.replace(together, alone)


def run(source: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the script in a folder of its own, and its model in ONNX Runtime."""
    monkeypatch.chdir(folder)
    script = folder / "script.py"
    script.write_text(source, encoding="utf-8")
    left = runpy.run_path(str(script))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(left["written"], options, providers=["CPUExecutionProvider"])
    feeds = {name: value.detach().numpy() for name, value in left["feeds"].items()}
    outputs = session.run(None, feeds)
    for got, want in zip(outputs, left["expected"], strict=True):
        torch.testing.assert_close(torch.from_numpy(got), want.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=WITHOUT if name in NEEDS_ONNXSCRIPT else ()) for name in SCRIPTS]
)
def test_with_fxport(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(with_fxport((FOLDER / f"{name}.py").read_text(encoding="utf-8")), tmp_path, monkeypatch)


TORCH_CANNOT = {
    "other_weights": "apply_weights of PyTorch 2.13 leaves a convolution with a folded batch normalization as it was",
    "verified": "profile=True of PyTorch asks for pyinstrument",
}


@WITHOUT
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(reason=TORCH_CANNOT[name]) if name in TORCH_CANNOT else ())
        for name in SCRIPTS
    ],
)
def test_with_torch(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts are ones that PyTorch's exporter takes."""
    run((FOLDER / f"{name}.py").read_text(encoding="utf-8"), tmp_path, monkeypatch)
