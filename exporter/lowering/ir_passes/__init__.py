"""ONNX in, ONNX out: the passes that finish a lowered model."""

from fxport.exporter.lowering.ir_passes.pipeline import FINISH, passes_of, run_ir_passes

__all__ = ["FINISH", "passes_of", "run_ir_passes"]
