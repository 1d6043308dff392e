"""Margin losses and their gradients, for which PyTorch's own decompositions give another result than its kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

REDUCTIONS: Mapping[int, Callable[[Tensor], Tensor]] = {0: Tensor.clone, 1: Tensor.mean, 2: Tensor.sum}
"""By the number that ATen's `reduction` is: none, mean, sum."""


def multi_margin_loss(
    x: Tensor, target: Tensor, p: float = 1, margin: float = 1, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """The loss of one row [classes] has no axes, of rows [n, classes] it is [n]: the sizes of `target`."""
    rows, labels = torch.atleast_2d(x), torch.atleast_1d(target).unsqueeze(1)
    classes = torch.arange(rows.shape[1], device=x.device)
    excess = (margin - rows.gather(1, labels) + rows).clamp_min(0) ** p
    weighted = excess if weight is None else excess * weight[labels]
    loss = torch.where(classes == labels, 0, weighted).mean(1)
    return REDUCTIONS[reduction](loss.reshape(target.shape))


def multilabel_margin_loss(x: Tensor, target: Tensor, reduction: int = 1) -> tuple[Tensor, Tensor]:
    """Labels count up to the first -1, in the losses as in the mask of what is a target."""
    rows, labels = torch.atleast_1d(x), torch.atleast_1d(target)
    given = (labels == -1).cumsum(-1) == 0
    labels = torch.where(given, labels, 0)
    classes = torch.arange(rows.shape[-1], device=x.device)
    is_target = ((classes == labels.unsqueeze(-1)) & given.unsqueeze(-1)).any(-2)
    excess = (1 - rows.gather(-1, labels).unsqueeze(-1) + rows.unsqueeze(-2)).clamp_min(0)
    counted = given.unsqueeze(-1) & ~is_target.unsqueeze(-2)
    loss = torch.where(counted, excess, 0).sum((-2, -1)) / rows.shape[-1]
    return REDUCTIONS[reduction](loss), is_target.to(x.dtype).reshape(x.shape)


def multi_margin_gradient(
    grad: Tensor, x: Tensor, target: Tensor, p: float, margin: float, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """By `x`, [classes] or [n, classes]: what a class exceeds the margin by counts for it and against the target."""
    rows, labels = torch.atleast_2d(x), torch.atleast_1d(target).unsqueeze(1)
    excess = margin - rows.gather(1, labels) + rows
    slopes = torch.where(excess > 0, 1.0 if p == 1 else 2 * excess, 0.0) / rows.shape[1]
    weighted = slopes if weight is None else slopes * weight[labels]
    is_label = torch.arange(rows.shape[1], device=x.device) == labels
    others = torch.where(is_label, 0.0, weighted)
    found = torch.where(is_label, -others.sum(1, keepdim=True), others)
    return (found * _shared(grad, rows, reduction)).to(x.dtype).reshape(x.shape)


def multilabel_margin_gradient(grad: Tensor, x: Tensor, target: Tensor, reduction: int, is_target: Tensor) -> Tensor:
    """By `x`, [classes] or [n, classes]; `is_target` is the mask that the loss gives beside its value."""
    rows, labels = torch.atleast_2d(x), torch.atleast_2d(target)
    given = (labels == -1).cumsum(-1) == 0
    labels = torch.where(given, labels, 0)
    excess = 1 - rows.gather(-1, labels).unsqueeze(-1) + rows.unsqueeze(-2)
    counted = given.unsqueeze(-1) & (is_target.reshape(rows.shape) == 0).unsqueeze(-2) & (excess > 0)
    shares = counted.to(rows.dtype) / rows.shape[-1]
    found = shares.sum(-2).scatter_add(-1, labels, -shares.sum(-1))
    return (found * _shared(grad, rows, reduction)).reshape(x.shape)


def _shared(grad: Tensor, rows: Tensor, reduction: int) -> Tensor:
    """The gradient of the loss as that of each of the rows, [n, 1] or one number."""
    shared = grad.reshape(-1, 1) if reduction == 0 else grad
    return shared / rows.shape[0] if reduction == 1 else shared


RULES: Mapping[str, Callable[..., Any]] = {
    "aten.multi_margin_loss.default": multi_margin_loss,
    "aten.multi_margin_loss_backward.default": multi_margin_gradient,
    "aten.multilabel_margin_loss_backward.default": multilabel_margin_gradient,
    "aten.multilabel_margin_loss.default": lambda *arguments: multilabel_margin_loss(*arguments)[0],
    "aten.multilabel_margin_loss_forward.default": multilabel_margin_loss,
}
