"""The gradients of padding with a tensor's own elements: each element gets what all its copies got."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.pad import amounts, continued

aten = torch.ops.aten


@lowering(
    aten.reflection_pad1d_backward.default,
    aten.reflection_pad2d_backward.default,
    aten.reflection_pad3d_backward.default,
)
def reflection_pad_backward(op: Op, grad_output: Value, x: Value, padding: Sequence[Size]) -> Value:
    """reflection_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> Tensor"""
    return _gathered(op, grad_output, x, padding, "reflect")


@lowering(
    aten.replication_pad1d_backward.default,
    aten.replication_pad2d_backward.default,
    aten.replication_pad3d_backward.default,
)
def replication_pad_backward(op: Op, grad_output: Value, x: Value, padding: Sequence[Size]) -> Value:
    """replication_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> Tensor"""
    return _gathered(op, grad_output, x, padding, "replicate")


def _gathered(op: Op, grad: Value, x: Value, padding: Sequence[Size], mode: str) -> Value:
    """Axis by axis: padded positions say where each element came from, and its gradient is added there."""
    sizes = list(op.sizes(grad))
    for axis, pair in amounts(op, x, padding).items():
        size = op.sizes(x)[axis]
        positions = op.typed(op.Range(op.const(0), op.const(size), op.const(1)), [size])
        origins = continued(op, positions, pair, mode)
        spread = op.Unsqueeze(origins, [i for i in range(len(sizes)) if i != axis])
        places = op.Expand(spread, op.shape(sizes))
        sizes[axis] = size
        zeros = op.Expand(op.const(0.0, like=grad), op.shape(sizes))
        grad = op.ScatterElements(zeros, places, grad, axis=axis, reduction="add")
    return op.typed(grad, sizes)
