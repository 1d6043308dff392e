"""Drop-in for `torch.onnx`: `fxport.onnx.export` takes the arguments of `torch.onnx.export` of PyTorch 2.13."""

from __future__ import annotations

from typing import Any

from torch.onnx import OperatorExportTypes, TrainingMode, is_in_onnx_export, ops

from fxport.diagnostics.errors import FxportError as OnnxExporterError
from fxport.onnx.exporting import ExportWarning, export
from fxport.onnx.program import ONNXProgram

__all__ = [
    "ExportWarning",
    "ONNXProgram",
    "OnnxExporterError",
    "OperatorExportTypes",
    "TrainingMode",
    "export",
    "is_in_onnx_export",
    "ops",
]


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"fxport.onnx has no '{name}'; it has {', '.join(sorted(__all__))}; for all else import torch.onnx", name=name
    )
