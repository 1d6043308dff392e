"""The result of an export, and how it is written to files."""

from fxport.exporter.onnx_program.program import LARGEST_PROTO, ExternalData, OnnxProgram

__all__ = ["LARGEST_PROTO", "ExternalData", "OnnxProgram"]
