"""Margin losses, for which PyTorch's own decompositions give another result than its kernels."""

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


RULES: Mapping[str, Callable[..., Any]] = {
    "aten.multi_margin_loss.default": multi_margin_loss,
    "aten.multilabel_margin_loss.default": lambda *arguments: multilabel_margin_loss(*arguments)[0],
    "aten.multilabel_margin_loss_forward.default": multilabel_margin_loss,
}
