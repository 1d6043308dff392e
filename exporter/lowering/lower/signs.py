"""Signs of floats, of zeros too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

if TYPE_CHECKING:
    from fxport.exporter.lowering.lower.builder import Op


def is_sum(x: ir.Value) -> bool:
    """Return whether a value is a sum: PyTorch adds to 0, where ONNX Runtime gives -0 if all terms are -0."""
    node = x.producer()
    return node is not None and node.op_type in ("ReduceSum", "ReduceMean")


def is_negative(op: Op, x: ir.Value) -> ir.Value:
    """Compute as BOOL where floats have the sign bit; NaN has none.

    The reciprocal tells -0 from 0, and only there is it asked: that of -inf is -0.
    """
    zero = op.const(0, like=x)
    below = op.Less(x, zero)
    return below if is_sum(x) else op.Or(below, op.Less(op.Reciprocal(x), zero))


def with_sign(op: Op, x: ir.Value, other: ir.Value) -> ir.Value:
    """Compute the lengths of floats with the signs of others. By a product: ONNX Runtime's Where makes 0 of -0."""
    return op.Mul(op.Abs(x), op.Where(is_negative(op, other), op.const(-1.0, like=x), op.const(1.0, like=x)))
