"""From a normalized Program to an ONNX model: one walk, one lowering per node."""

from exporter.lower.builder import Op, TensorType, Value, Values
from exporter.lower.registry import Lowering, lowering
from exporter.lower.walk import lower

__all__ = ["Lowering", "Op", "TensorType", "Value", "Values", "lower", "lowering"]
