"""Copies of the example that lie in memory as the example does: a model may ask for their strides."""

from __future__ import annotations

import torch
from torch import Tensor


def laid_out_as(example: Tensor, values: Tensor) -> Tensor:
    """Return values, of as many axes as the example, whose axes follow each other in memory as those of the example do.

    Gaps, as those of `x[:, ::2]`, are as large as they are in the example, in relation to the axes within them, and an
    axis that is expanded is so here. Where axes overlap otherwise, the values are returned as they are.
    """
    is_plain = type(example) is Tensor and example.layout is torch.strided and not (values.is_conj() or values.is_neg())
    if not is_plain or example.is_contiguous() or not values.numel():
        return values
    strides, sizes = [0] * example.dim(), values.shape
    within, now = 1, 1  # how far the inner axes reach
    for axis in sorted(range(example.dim()), key=lambda axis: (example.stride(axis), example.shape[axis])):
        step, size = example.stride(axis), example.shape[axis]
        if step == 0:
            values = values.narrow(axis, 0, 1)
            continue
        if size > 1 and step < within:
            return values
        strides[axis] = -(-step * now // within)
        within, now = max(within, step * size), max(now, strides[axis] * values.shape[axis])
    laid_out = torch.empty_strided(values.shape, strides, dtype=values.dtype, device=values.device).copy_(values)
    return laid_out.expand(sizes)
