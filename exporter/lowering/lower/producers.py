"""Producers of values."""

from __future__ import annotations

import onnx_ir as ir


def made_by(value: ir.Value | None, op_type: str) -> ir.Node | None:
    """The node that makes a value, if it is of that standard operator."""
    node = value.producer() if value is not None else None
    return node if node is not None and node.op_type == op_type and not node.domain else None
