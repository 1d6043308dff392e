"""Losses that ONNX has whole; the others decompose."""

from __future__ import annotations

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.dtypes import HALVES
from fxport.exporter.lowering.lower.registry import lowering

aten = torch.ops.aten

REDUCTIONS = ("none", "mean", "sum")
"""By the number that ATen has for them."""


@lowering(aten.nll_loss.default, aten.nll_loss_nd.default, aten.nll_loss2d.default)
def nll_loss(
    op: Op, x: Value, target: Value, weight: Value | None = None, reduction: int = 1, ignore_index: Scalar = -100
) -> Value:
    """nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor

    NegativeLogLikelihoodLoss, which ONNX defines by simpler operators and ONNX Runtime replaces by them. Halves are
    summed up in FLOAT, as in PyTorch.
    """
    target = op.cast(target, ir.DataType.INT64)
    rank = op.rank(x)
    if rank == 1:
        x, target = op.Unsqueeze(x, [0]), op.Unsqueeze(target, [0])
    if x.dtype in HALVES:
        x = op.cast(x, ir.DataType.FLOAT)
    weights = () if weight is None else (op.const(weight, like=x),)
    options = {"reduction": REDUCTIONS[reduction], "ignore_index": ignore_index}
    loss = op.NegativeLogLikelihoodLoss(x, target, *weights, **options)
    loss = op.Squeeze(loss, [0]) if rank == 1 and reduction == 0 else loss
    return op.cast(loss, op.out.dtype)


@lowering(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
def nll_loss_forward(
    op: Op, x: Value, target: Value, weight: Value | None, reduction: int, ignore_index: Scalar
) -> tuple[Value, Value]:
    """nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) \
-> (Tensor output, Tensor total_weight)

    The total weight, which only the derivative asks for, is that of the targets that are not ignored.
    """
    loss = nll_loss(op, x, target, weight, reduction, ignore_index)
    if reduction == 0:
        return loss, op.const(0, dtype=op.out.dtype)
    target = op.cast(target, ir.DataType.INT64)
    ignored = op.Equal(target, op.const(ignore_index))
    each = op.const(1, like=x) if weight is None else op.Gather(weight, op.Where(ignored, 0, target))
    return loss, op.ReduceSum(op.Where(ignored, op.const(0, like=x), each), keepdims=0)
