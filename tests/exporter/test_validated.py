"""`export_and_validate`: the command line's work in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError
from fxport.diagnostics import rules
from fxport.exporter.validation.adversarial import BY_DEFAULT
from fxport.exporter.validation.validated import export_and_validate
from fxport.ort_runner import providers

X = torch.randn(3, 4)


def wrong_relu(op: Any, x: Any) -> Any:
    """relu(Tensor self) -> Tensor"""
    return op.Abs(x)


class Chosen(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.to_sparse() @ x.T


def test_a_sound_model_is_compared_at_two_sizes(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    checked = export_and_validate(
        nn.Linear(4, 2), X, path=path, dynamic_shapes=({0: "batch"},), opset_version=18, provider="cpu"
    )
    assert checked.files == [path]
    assert checked.program.model.opset_imports == {"": 18}
    assert checked.validation is not None
    assert checked.validation.passed
    labels = [sample.label for sample in checked.validation.samples]
    assert labels[:2] == ["sample", "resized"]
    edges = {"uneven", "few", "batch=1", "smallest", "batch=65", "batch=0"}
    assert {*labels[2:]} <= {*edges, *BY_DEFAULT}  # as many as the time of the export pays for
    told = repr(checked).splitlines()
    assert told[0].startswith("OnnxProgram: opset 18, 1 node")
    assert told[1].split() == ["inputs", "input", "float32", "[batch,", "4]"]
    assert "equal to PyTorch on cpu" in told
    assert "Parameter" not in repr(checked.program.program)


class OneBufferTwice(nn.Module):
    """Writes to a buffer by one of its two names and reads it by the other."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(4))
        self.register_buffer("shown", self.count)

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return x + self.shown


def test_a_buffer_of_two_names_is_one_in_all_runs(tmp_path: Path) -> None:
    checked = export_and_validate(OneBufferTwice(), X, path=tmp_path / "model.onnx", provider="cpu")
    assert checked.validation is not None
    assert checked.validation.passed
    assert {each.rule for each in checked.program.log.findings} == {rules.STATE_MUTATED}


class Flat(nn.Module):
    """Asks a tensor without values how it lies in memory."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.empty_like(x, device="meta")
        return x * (2 if x.is_contiguous() else 3) + y.dim()


def test_the_origin_is_sought_beside_tensors_without_values(tmp_path: Path) -> None:
    x = torch.randn(9).unfold(0, 3, 1)  # a copy of it is contiguous
    with pytest.raises(ExportError) as caught:
        export_and_validate(Flat(), x, path=tmp_path / "model.onnx", provider="cpu")
    assert "Cause: capture." in str(caught.value)


def test_a_wrong_model_raises_and_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    lowerings = {torch.ops.aten.relu.default: wrong_relu}
    with pytest.raises(ExportError, match="is not what PyTorch gives") as caught:
        export_and_validate(nn.Sequential(nn.ReLU()), X, path=path, provider="cpu", lowerings=lowerings)
    assert "lowering of aten.relu.default" in str(caught.value)
    assert path.exists()


def test_a_provider_that_fell_back_is_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "why_not", lambda provider: "not here" if provider.name == "tensorrt" else None)
    with pytest.raises(ExportError) as caught:
        export_and_validate(nn.Linear(4, 2), X, path=tmp_path / "m.onnx", provider="tensorrt")
    assert "gives what PyTorch gives, but an error was found" in str(caught.value)


def test_a_failure_of_the_runtime_is_told_with_its_cause(tmp_path: Path) -> None:
    def far(op: Any, x: Any) -> Any:
        return op.GatherElements(x, op.cast(op.Add(op.Mul(x, 0.0), 99.0), ir.DataType.INT64), axis=0)

    lowerings = {torch.ops.aten.relu.default: far}
    with pytest.raises(ExportError) as caught:
        export_and_validate(nn.ReLU(), X, path=tmp_path / "m.onnx", provider="cpu", lowerings=lowerings)
    (finding,) = (each for each in caught.value.log.findings if each.rule is rules.RUNTIME_FAILED)
    assert finding.message.endswith("Cause: lowering of aten.relu.default.")


def test_what_cannot_be_exported_raises_its_findings(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="the model cannot be exported") as caught:
        export_and_validate(Chosen(), X, path=tmp_path / "model.onnx", provider="cpu")
    assert [finding.rule for finding in caught.value.log.findings] == [rules.NO_ONNX_LOWERING]
    assert not list(tmp_path.iterdir())


def test_what_makes_no_sense(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'gpu' is unknown"):
        export_and_validate(nn.ReLU(), X, path=tmp_path / "model.onnx", provider="gpu")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        export_and_validate(nn.ReLU(), X, path=tmp_path / "no" / "model.onnx", provider="cpu")
