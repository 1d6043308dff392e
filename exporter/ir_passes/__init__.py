"""ONNX in, ONNX out: the passes that finish a lowered model."""

from exporter.ir_passes.pipeline import FINISH, run_ir_passes

__all__ = ["FINISH", "run_ir_passes"]
