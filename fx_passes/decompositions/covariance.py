"""Covariance and correlation. PyTorch's own look at the data, to warn of a divisor below 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def cov(x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """The covariance of the rows of `x`: [rows, rows], a number for one row. A divisor below 0 counts as 0."""
    x = x if x.dim() == 2 else x.reshape(1, -1)
    weights = aweights if fweights is None else fweights if aweights is None else fweights * aweights
    if weights is None:
        count = x.shape[1]
        centred = x - x.sum(1, keepdim=True) / count
        return ((centred @ centred.mH) / torch.sym_max(count - correction, 0)).squeeze()
    total = weights.sum()
    centred = x - (x * weights).sum(1, keepdim=True) / total
    lost = correction if aweights is None else correction * (weights * aweights).sum() / total
    product = centred @ (centred * weights).mH
    return (product / (total - lost).clamp(min=0)).squeeze()


def corrcoef(x: Tensor) -> Tensor:
    """The covariance of the rows divided by both deviations, from -1 to 1; a number divided by itself for one row."""
    covariance = cov(x)
    if covariance.dim() == 0:
        return covariance / covariance
    deviation = covariance.diagonal().real.sqrt() if x.is_complex() else covariance.diagonal().sqrt()
    ratio = covariance / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    if x.is_complex():
        return torch.complex(ratio.real.clamp(-1, 1), ratio.imag.clamp(-1, 1))
    return ratio.clamp(-1, 1)


RULES: Mapping[str, Callable[..., Any]] = {"aten.cov.default": cov, "aten.corrcoef.default": corrcoef}
