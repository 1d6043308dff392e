"""fxport: PyTorch models to ONNX, validated in ONNX Runtime.

Names are imported on use: `import fxport` waits for nothing, and `fxport explain` must not wait for PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fxport import onnx
    from fxport.diagnostics import Finding, Level, Log, Stop
    from fxport.diagnostics.errors import FxportError
    from fxport.diagnostics.sarif.objects import SarifError
    from fxport.exporter.capture.program import NamesError
    from fxport.exporter.capture.sizes.shapes import ShapesError
    from fxport.exporter.language_models.decode import Example, NoCacheError, decode_step, encode, prefill
    from fxport.exporter.language_models.generation import NotGenerativeError, generation_step
    from fxport.exporter.language_models.packaging import Package, package
    from fxport.exporter.lowering.lower.builder import Op
    from fxport.exporter.lowering.lower.registry import LoweringError, Unsupported, lowering
    from fxport.exporter.lowering.lower.weights import WeightlessError
    from fxport.exporter.onnx_program import OnnxProgram
    from fxport.exporter.pipeline.calls import CallError
    from fxport.exporter.pipeline.errors import ExportError
    from fxport.exporter.pipeline.exporting import export
    from fxport.exporter.pipeline.options import Options
    from fxport.exporter.sources.pretrained import PretrainedError
    from fxport.exporter.sources.usage import UsageError
    from fxport.exporter.training import (
        OptimizerError,
        TrainingError,
        TrainingProgram,
        UnseededError,
        export_training_step,
        load_into,
    )
    from fxport.exporter.validation.validated import export_and_validate
    from fxport.exporter.weights.stored import CheckpointError
    from fxport.fx_passes.private import OtherTorch
    from fxport.fx_passes.spec import SpecError
    from fxport.ort_runner.failures import Failure
    from fxport.ort_runner.package_config import PackageError
    from fxport.ort_runner.structure import NoStructure, OtherStructure
    from fxport.ort_runner.train import NonFiniteLoss
    from fxport.ort_runner.train_description import NotATrainingStep
    from fxport.ort_runner.train_inputs import RefusedInput

__all__ = [
    "CallError",
    "CheckpointError",
    "Example",
    "ExportError",
    "Failure",
    "Finding",
    "FxportError",
    "Level",
    "Log",
    "LoweringError",
    "NamesError",
    "NoCacheError",
    "NoStructure",
    "NonFiniteLoss",
    "NotATrainingStep",
    "NotGenerativeError",
    "OnnxProgram",
    "Op",
    "OptimizerError",
    "Options",
    "OtherStructure",
    "OtherTorch",
    "Package",
    "PackageError",
    "PretrainedError",
    "RefusedInput",
    "SarifError",
    "ShapesError",
    "SpecError",
    "Stop",
    "TrainingError",
    "TrainingProgram",
    "UnseededError",
    "Unsupported",
    "UsageError",
    "WeightlessError",
    "decode_step",
    "encode",
    "export",
    "export_and_validate",
    "export_training_step",
    "generation_step",
    "load_into",
    "lowering",
    "onnx",
    "package",
    "prefill",
]

_HOMES = {
    "CallError": "fxport.exporter.pipeline.calls",
    "CheckpointError": "fxport.exporter.weights.stored",
    "Example": "fxport.exporter.language_models.decode",
    "ExportError": "fxport.exporter.pipeline.errors",
    "Failure": "fxport.ort_runner.failures",
    "Finding": "fxport.diagnostics",
    "FxportError": "fxport.diagnostics.errors",
    "Level": "fxport.diagnostics",
    "Log": "fxport.diagnostics",
    "LoweringError": "fxport.exporter.lowering.lower.registry",
    "NamesError": "fxport.exporter.capture.program",
    "NoCacheError": "fxport.exporter.language_models.decode",
    "NoStructure": "fxport.ort_runner.structure",
    "NonFiniteLoss": "fxport.ort_runner.train",
    "NotATrainingStep": "fxport.ort_runner.train_description",
    "NotGenerativeError": "fxport.exporter.language_models.generation",
    "OnnxProgram": "fxport.exporter.onnx_program",
    "Op": "fxport.exporter.lowering.lower.builder",
    "OptimizerError": "fxport.exporter.training",
    "Options": "fxport.exporter.pipeline.options",
    "OtherStructure": "fxport.ort_runner.structure",
    "OtherTorch": "fxport.fx_passes.private",
    "Package": "fxport.exporter.language_models.packaging",
    "PackageError": "fxport.ort_runner.package_config",
    "PretrainedError": "fxport.exporter.sources.pretrained",
    "RefusedInput": "fxport.ort_runner.train_inputs",
    "SarifError": "fxport.diagnostics.sarif.objects",
    "ShapesError": "fxport.exporter.capture.sizes.shapes",
    "SpecError": "fxport.fx_passes.spec",
    "Stop": "fxport.diagnostics",
    "TrainingError": "fxport.exporter.training",
    "TrainingProgram": "fxport.exporter.training",
    "UnseededError": "fxport.exporter.training",
    "Unsupported": "fxport.exporter.lowering.lower.registry",
    "UsageError": "fxport.exporter.sources.usage",
    "WeightlessError": "fxport.exporter.lowering.lower.weights",
    "decode_step": "fxport.exporter.language_models.decode",
    "encode": "fxport.exporter.language_models.decode",
    "export": "fxport.exporter.pipeline.exporting",
    "export_and_validate": "fxport.exporter.validation.validated",
    "export_training_step": "fxport.exporter.training",
    "generation_step": "fxport.exporter.language_models.generation",
    "load_into": "fxport.exporter.training",
    "lowering": "fxport.exporter.lowering.lower.registry",
    "onnx": "fxport",
    "package": "fxport.exporter.language_models.packaging",
    "prefill": "fxport.exporter.language_models.decode",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fxport' has no attribute '{name}'", name=name)
    if _HOMES[name] == "fxport":
        return import_module(f"fxport.{name}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"Any", "TYPE_CHECKING", "annotations", "import_module"})
