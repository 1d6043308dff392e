"""PyTorch to ONNX. Names are imported on use: `fxport explain` must not wait for PyTorch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exporter.decode import Example, decode_step, encode, prefill
    from exporter.lower.builder import Op
    from exporter.lower.registry import Unsupported, lowering
    from exporter.options import Options
    from exporter.pipeline import ExportError, OnnxProgram, export
    from exporter.training import TrainingError, TrainingProgram, export_training_step, load_into

__all__ = [
    "Example",
    "ExportError",
    "OnnxProgram",
    "Op",
    "Options",
    "TrainingError",
    "TrainingProgram",
    "Unsupported",
    "decode_step",
    "encode",
    "export",
    "export_training_step",
    "load_into",
    "lowering",
    "prefill",
]

_HOMES = {
    "Example": "exporter.decode",
    "ExportError": "exporter.pipeline",
    "OnnxProgram": "exporter.pipeline",
    "Op": "exporter.lower.builder",
    "Options": "exporter.options",
    "TrainingError": "exporter.training",
    "TrainingProgram": "exporter.training",
    "Unsupported": "exporter.lower.registry",
    "decode_step": "exporter.decode",
    "encode": "exporter.decode",
    "export": "exporter.pipeline",
    "export_training_step": "exporter.training",
    "load_into": "exporter.training",
    "lowering": "exporter.lower.registry",
    "prefill": "exporter.decode",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'exporter' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
