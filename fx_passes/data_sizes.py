"""The op by which an axis of an input gets a size that only a run tells, as those of selected rows are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

OPEN = -1
"""In the place of a size: a new one, which only a run tells."""


@torch.library.custom_op("fxport::sized_by_data", mutates_args=(), tags=(torch.Tag.dynamic_output_shape,))
def sized_by_data(x: Tensor, sizes: Sequence[int], least: Sequence[int], most: Sequence[int]) -> Tensor:
    """Return x as it is, contiguous.

    `sizes` are those of its axes, OPEN for one that only a run tells; `least` and `most` are the bounds of the open
    ones, in their order.
    """
    return x.clone(memory_format=torch.contiguous_format)


@sized_by_data.register_fake
def _sized(x: Tensor, sizes: Sequence[int], least: Sequence[int], most: Sequence[int]) -> Tensor:
    new, bounds = torch.library.get_ctx().new_dynamic_size, zip(least, most, strict=True)
    shape: list[int | torch.SymInt] = []
    for each in sizes:
        is_open = isinstance(each, int) and each == OPEN
        low, high = next(bounds) if is_open else (0, 0)
        shape.append(new(min=low, max=high) if is_open else each)
    return x.new_empty(shape)
