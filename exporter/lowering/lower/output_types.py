"""Output types that ONNX's schemas leave open: rules by attribute, by another input, or by a body."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir as ir

BODIES: Mapping[str, tuple[str, int]] = {"If": ("then_branch", 0), "Loop": ("body", 1), "Scan": ("body", 0)}
"""Operators whose outputs are those of a body: its attribute, and how many of the body's outputs come before them."""


def from_body(node: ir.Node, index: int) -> ir.DataType | None:
    """The type of an output of control flow, which is that of the body's output behind it."""
    attribute, skipped = BODIES[node.op_type]
    return node.attributes[attribute].as_graph().outputs[skipped + index].dtype


def _from_attribute(name: str, default: ir.DataType | None = None) -> Callable[[ir.Node], ir.DataType | None]:
    def rule(node: ir.Node) -> ir.DataType | None:
        attribute = node.attributes.get(name)
        return default if attribute is None else ir.DataType(attribute.as_int())

    return rule


def _constant_of_shape(node: ir.Node) -> ir.DataType:
    attribute = node.attributes.get("value")
    return ir.DataType.FLOAT if attribute is None else attribute.as_tensor().dtype


def _like_first(attribute: str) -> Callable[[ir.Node], ir.DataType | None]:
    """Operators that keep the type of their first input unless an attribute says otherwise."""

    def rule(node: ir.Node) -> ir.DataType | None:
        first = node.inputs[0]
        return _from_attribute(attribute, first.dtype if first is not None else None)(node)

    return rule


def _quantized(node: ir.Node) -> ir.DataType | None:
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        return node.inputs[2].dtype
    return _from_attribute("output_dtype", ir.DataType.UINT8)(node)


def _dequantized(node: ir.Node) -> ir.DataType | None:
    return node.inputs[1].dtype if node.inputs[1] is not None else None


OUTPUT_TYPES: Mapping[str, Callable[[ir.Node], ir.DataType | None]] = {
    "Cast": _from_attribute("to"),
    "ConstantOfShape": _constant_of_shape,
    "EyeLike": _like_first("dtype"),
    "Bernoulli": _like_first("dtype"),
    "Multinomial": _from_attribute("dtype", ir.DataType.INT32),
    "RandomNormal": _from_attribute("dtype", ir.DataType.FLOAT),
    "RandomUniform": _from_attribute("dtype", ir.DataType.FLOAT),
    "RandomNormalLike": _like_first("dtype"),
    "RandomUniformLike": _like_first("dtype"),
    "HannWindow": _from_attribute("output_datatype", ir.DataType.FLOAT),
    "HammingWindow": _from_attribute("output_datatype", ir.DataType.FLOAT),
    "BlackmanWindow": _from_attribute("output_datatype", ir.DataType.FLOAT),
    "MelWeightMatrix": _from_attribute("output_datatype", ir.DataType.FLOAT),
    "QuantizeLinear": _quantized,
    "DequantizeLinear": _dequantized,
    "BitCast": _from_attribute("to"),
}
"""Operators whose output type is said by an attribute or by another input than the type variable."""

STATISTICS: Mapping[str, ir.DataType] = {"LayerNormalization": ir.DataType.FLOAT}
"""Operators whose further outputs have a type of their own, which no input says."""
