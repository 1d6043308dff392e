"""The gradient of `segment_reduce`: each element of the data has its part of that of its segment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Segments:
    """The segments of a tensor. `index` has that of each element along `axis`, [*data]; `inside` is False for elements
    that are in none, whose index is 0; `lengths` are those of the segments, [*output]."""

    index: Tensor
    inside: Tensor
    lengths: Tensor
    axis: int

    def spread(self, values: Tensor) -> Tensor:
        """Give each element the value of its segment."""
        return values.gather(self.axis, self.index)

    def counted(self, found: Tensor) -> Tensor:
        """Give each segment the number of its elements that are found."""
        ones = (found & self.inside).to(self.lengths.dtype)
        return torch.zeros_like(self.lengths).scatter_add(self.axis, self.index, ones)

    def multiplied(self, values: Tensor) -> Tensor:
        """Give each segment the product of its elements."""
        kept = torch.where(self.inside, values, 1.0)
        return torch.ones_like(self.lengths).scatter_reduce(self.axis, self.index, kept, "prod")


def segments_of(data: Tensor, output: Tensor, lengths: Tensor | None, offsets: Tensor | None) -> Segments:
    """The segments by their lengths, or by the offsets at which they begin and end."""
    if offsets is None:
        assert lengths is not None
        ends = lengths.cumsum(-1)
        begins = ends - lengths
    else:
        begins, ends = offsets[..., :-1], offsets[..., 1:]
    axis = ends.dim() - 1
    count = data.shape[axis]
    places = torch.arange(count, dtype=ends.dtype, device=data.device).expand(*ends.shape[:-1], count)
    segment = torch.searchsorted(ends.contiguous(), places.contiguous(), right=True)
    inside = (segment < ends.shape[-1]) & (places >= begins[..., :1])
    beyond = (..., *[None] * (data.dim() - axis - 1))
    index = torch.where(inside, segment, 0)[beyond].expand(data.shape)
    sizes = (ends - begins).to(data.dtype)[beyond].expand(output.shape)
    return Segments(index, inside[beyond].expand(data.shape), sizes, axis)


def segment_reduce(
    grad: Tensor,
    output: Tensor,
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    initial: float | None = None,
) -> Tensor:
    """By the data. Of several largest elements each has its part of a positive gradient, and the whole of a negative
    one, as PyTorch's kernel has it."""
    segments = segments_of(data, output, lengths, offsets)
    result = PARTS[reduce](segments, segments.spread(grad), segments.spread(output), data, initial)
    return torch.where(segments.inside, result, 0.0)


def _of_sum(_segments: Segments, share: Tensor, *_: Any) -> Tensor:
    return share


def _of_mean(segments: Segments, share: Tensor, *_: Any) -> Tensor:
    return share / segments.spread(segments.lengths)


def _of_extreme(segments: Segments, share: Tensor, result: Tensor, data: Tensor, *_: Any) -> Tensor:
    is_taken = data.isnan() | (data == result)
    counts = segments.spread(segments.counted(is_taken))
    return torch.where(is_taken, torch.where(share > 0, share / counts, share), 0.0)


def _of_product(segments: Segments, share: Tensor, result: Tensor, data: Tensor, initial: float | None) -> Tensor:
    """The product of all others: by a quotient, but where the element is 0 or NaN."""
    is_zero, is_nan = data == 0, data.isnan()
    plain = torch.where(is_zero | is_nan, 1.0, data)
    others = segments.spread(segments.multiplied(plain)) * (1.0 if initial is None else initial)
    zeros, nans = (segments.spread(segments.counted(each)) - each.to(data.dtype) for each in (is_zero, is_nan))
    others = torch.where(zeros > 0, others * 0.0, others)
    others = torch.where(nans > 0, torch.nan, others)
    return torch.where(is_zero | is_nan, share * others, share * result / plain)


PARTS: Mapping[str, Callable[..., Tensor]] = {
    "sum": _of_sum,
    "mean": _of_mean,
    "max": _of_extreme,
    "min": _of_extreme,
    "prod": _of_product,
}
RULES: Mapping[str, Callable[..., Any]] = {"aten._segment_reduce_backward.default": segment_reduce}
