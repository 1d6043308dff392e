"""Decompositions of PyTorch's ops for a linear layer with a cross entropy, computed batch by batch.

They save memory in training, by chunks of the batch and by gradients that come with the loss. `input` is [n, features],
`linear_weight` [classes, features], `target` INT64 [n]. Unused gradients are dropped with their nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear


def reduced_loss(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    batch_chunk_size: int,
    acc_policy: str,
    acc_dtype: torch.dtype,
    allow_retain_graph: bool,
    *wanted: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The mean or the sum, and its gradients: by the input, the weight and the bias, those that are `wanted`."""
    logits = linear(input, linear_weight, linear_bias).to(acc_dtype)
    weights = None if weight is None else weight.to(acc_dtype)
    loss = cross_entropy(
        logits, target, weights, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing
    )
    held = target != ignore_index
    share = torch.where(held, 1.0 if weights is None else weights[torch.where(held, target, 0)], 0.0)
    share = share / share.sum() if reduction == "mean" else share
    chosen = torch.unsqueeze(target, 1) == torch.arange(logits.shape[1], device=target.device)
    by_logits = (torch.softmax(logits, 1) - chosen.to(acc_dtype)) * share.unsqueeze(1).to(acc_dtype)
    gradients = (
        by_logits @ linear_weight.to(acc_dtype),
        by_logits.T @ input.to(acc_dtype),
        by_logits.sum(0),
    )
    empty = ((0, 0), (0, 0), (0,))
    by_input, by_weight, by_bias = (
        (gradient if asked else gradient.new_zeros(sizes)).to(input.dtype)
        for gradient, asked, sizes in zip(gradients, wanted, empty, strict=True)
    )
    return loss.to(input.dtype), by_input, by_weight, by_bias


def each_loss(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    ignore_index: int,
    batch_chunk_size: int,
    acc_policy: str,
    acc_dtype: torch.dtype,
) -> Tensor:
    """The loss of each element of the batch."""
    logits = linear(input, linear_weight, linear_bias).to(acc_dtype)
    weights = None if weight is None else weight.to(acc_dtype)
    return cross_entropy(logits, target, weights, reduction="none", ignore_index=ignore_index).to(input.dtype)


RULES: Mapping[str, Callable[..., Any]] = {
    "torch_nn._linear_cross_entropy_batch_chunked.default": reduced_loss,
    "torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default": each_loss,
}
"""By the names of the ops, which PyTorch registers from 2.12 on, and only where they are used."""
