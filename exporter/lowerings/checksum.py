"""A tensor's checksum."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import torch

from exporter.lower.builder import Op, Value
from exporter.lower.dtypes import is_float
from exporter.lower.registry import Unsupported, lowering
from exporter.lowerings.prefix import prefixes
from exporter.lowerings.reduce import counted, folded, may_be_empty

aten = torch.ops.aten

BITCAST_FROM = 26
"""The opset at which the bits of a float can be read."""


@lowering(aten.hash_tensor.default)
def hash_tensor(op: Op, x: Value, dim: Sequence[int] = (), *, keepdim: bool = False, mode: int = 0) -> Value:
    """hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor

    The exclusive or of all bits, of integers as INT64 and of floats as DOUBLE.
    """
    if may_be_empty(counted(op, x, dim)):
        raise Unsupported("the checksum of no elements")
    return folded(op, _bits(op, x), dim, keepdim, lambda x, axis: _running_xor(op, x, axis))


def _bits(op: Op, x: Value) -> Value:
    if not is_float(x.dtype):
        return op.cast(op.cast(x, ir.DataType.INT64), ir.DataType.UINT64)
    if op.opset < BITCAST_FROM:
        raise Unsupported(f"the bits of floats can only be read from opset {BITCAST_FROM} on")
    return op.typed(op.BitCast(op.cast(x, ir.DataType.DOUBLE), to=ir.DataType.UINT64), op.sizes(x))


def _running_xor(op: Op, x: Value, axis: int) -> Value:
    (found,) = prefixes(op, [x], axis, lambda before, after: [op.BitwiseXor(before[0], after[0])])
    return found
