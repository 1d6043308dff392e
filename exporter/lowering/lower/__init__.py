"""From a normalized Program to an ONNX model: one walk, one lowering per node."""

from fxport.exporter.lowering.lower.builder import Op, TensorType, Value, Values
from fxport.exporter.lowering.lower.registry import Lowering, lowering
from fxport.exporter.lowering.lower.walk import lower

__all__ = ["Lowering", "Op", "TensorType", "Value", "Values", "lower", "lowering"]
