"""Copies of the example that lie in memory as the example does: a model may ask for their strides."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

MOST_ELEMENTS, MOST_TIMES = 2**22, 4
"""The memory of a copy: so many elements, or times those of the values. The example may be a part of a large file."""


def laid_out_as(example: Tensor, values: Tensor) -> Tensor:
    """Return values, of as many axes as the example, whose axes follow each other in memory as those of the example do.

    Gaps, as those of `x[:, ::2]`, are as large as they are in the example, in relation to the axes within them, an axis
    that is expanded is so here, and so is the place in memory at which a part begins. Where axes overlap otherwise,
    or the memory would be many times that of the values, these are returned as they are.
    """
    is_plain = type(example) is Tensor and example.layout is torch.strided and not (values.is_conj() or values.is_neg())
    if not is_plain or lies_as_onnx_has_it(example) or not values.numel() or _lies_alike(values, example):
        return values
    strides, sizes = [0] * example.dim(), values.shape
    before, now = Reach(), Reach()
    for axis in sorted(range(example.dim()), key=lambda axis: (example.stride(axis), example.shape[axis])):
        step, size = example.stride(axis), example.shape[axis]
        if step == 0:
            values = values.narrow(axis, 0, 1)
            continue
        if size > 1 and step < before.last:
            return values
        strides[axis] = now.step_like(before, step)
        before, now = before.over(step, size), now.over(strides[axis], values.shape[axis])
    offset = example.storage_offset()
    if offset + now.last > max(MOST_ELEMENTS, MOST_TIMES * values.numel()):
        return values
    memory = torch.zeros(offset + now.last, dtype=values.dtype, device=values.device)
    laid_out = memory.as_strided(values.shape, strides, offset).copy_(values)
    return laid_out.expand(sizes)


def _lies_alike(one: Tensor, other: Tensor) -> bool:
    return one.stride() == other.stride() and one.storage_offset() == other.storage_offset()


def lies_as_onnx_has_it(value: Tensor) -> bool:
    """Return whether a tensor is contiguous, and begins where its memory does."""
    return value.is_contiguous() and not value.storage_offset()


def overlaps(value: Tensor) -> bool:
    """Return whether several elements of a tensor are one place in memory, as far as the steps of its axes tell."""
    reach = Reach()
    for step, size in sorted(zip(value.stride(), value.shape, strict=True)):
        if size > 1 and step < reach.last:
            return bool(value.numel())
        reach = reach.over(step, size)
    return False


@dataclass(frozen=True, slots=True)
class Reach:
    """The reach of some axes of a tensor in memory.

    Attributes:
        last: The elements from the first to the last, and one.
        whole: The same with the gap behind the last.
    """

    last: int = 1
    whole: int = 1

    def over(self, step: int, size: int) -> Reach:
        """Return the reach with one more axis."""
        return Reach(max(self.last, step * (size - 1) + self.last), max(self.whole, step * size))

    def step_like(self, other: Reach, step: int) -> int:
        """Return the step over these axes that is to them what a step is to those of another tensor."""
        if step % other.whole == 0:
            return step // other.whole * self.whole
        return -(-step * self.last // other.last)
