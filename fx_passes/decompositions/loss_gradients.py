"""Gradients that every training step has, in few passes over the activations: of layer norm and of cross-entropy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

MEAN = 1
"""A reduction; 0 is none and 2 the sum."""

HALVES = (torch.float16, torch.bfloat16)
"""Dtypes whose gradients are computed in float32."""


def layer_norm(
    grad: Tensor,
    x: Tensor,
    normalized_shape: Sequence[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """By `x`, `weight` and `bias`.

    With h the normalized `x` it is (g w - mean(g w) - h mean(g h w)) rstd, and the means are products with w / n: g h
    is needed for the weight anyway, and g h w is not.
    """
    wide, count = torch.float32 if x.dtype in HALVES else x.dtype, prod(normalized_shape)
    grad, rows = (each.to(wide).reshape(-1, count) for each in (grad, x))
    mean, rstd = mean.reshape(-1, 1), rstd.reshape(-1, 1)
    scale = None if weight is None else weight.to(wide).flatten()
    normalized = (rows - mean) * rstd
    along = grad * normalized

    def averaged(values: Tensor) -> Tensor:
        return values.mean(1, keepdim=True) if scale is None else values.mm((scale / count)[:, None])

    def summed(values: Tensor) -> Tensor:
        return values.sum(0).reshape(normalized_shape).to(x.dtype if weight is None else weight.dtype)

    by_x = None
    if output_mask[0]:
        scaled = grad if scale is None else grad * scale
        by_x = ((scaled - normalized * averaged(along) - averaged(grad)) * rstd).reshape(x.shape).to(x.dtype)
    return by_x, summed(along) if output_mask[1] else None, summed(grad) if output_mask[2] else None


def nll_loss(
    grad: Tensor,
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Tensor:
    """By the logarithms `x`: each row's own number at its class, and zeros."""
    axis = 1 if x.dim() > 1 else 0
    target = target.unsqueeze(axis)
    kept = target != ignore_index
    classes = torch.where(kept, target, 0)
    each = grad / total_weight if reduction == MEAN else grad
    each = each.unsqueeze(axis) if each.dim() else each.expand(target.shape)
    if weight is not None:
        each = each * weight[classes]
    return torch.zeros_like(x).scatter(axis, classes, torch.where(kept, -each, 0.0))


RULES: Mapping[str, Callable[..., Any]] = {
    "aten.native_layer_norm_backward.default": layer_norm,
    "aten.nll_loss_backward.default": nll_loss,
    "aten.nll_loss2d_backward.default": nll_loss,
}
