"""Parts of a tensor along an axis, of sizes that only data tells, as `x.split(sizes)` gives them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

from fxport.exporter.capture.control_flow.merging import LoopError


class Ragged:
    """The parts of a tensor along an axis, of sizes that only data tells; it can do what is the same for each part.

    Args:
        whole: All parts, joined.
        axis: The axis.
        sizes: The sizes of the parts, [parts].
        stacked: The parts in one tensor, [parts, ...], each filled up to the longest, if there is such a tensor.
    """

    def __init__(self, whole: Tensor, axis: int, sizes: Tensor, stacked: Tensor | None = None) -> None:
        self.whole, self.axis, self.sizes, self.stacked = whole, axis % whole.dim(), sizes, stacked

    def leaves(self) -> list[Any]:
        """Return the tensors that it holds."""
        return [self.whole, self.sizes, *([] if self.stacked is None else [self.stacked])]

    def mapped(self, change: Callable[[Any], Any]) -> Ragged:
        """Return one that holds others in the place of these tensors."""
        stacked = None if self.stacked is None else change(self.stacked)
        return Ragged(change(self.whole), self.axis, change(self.sizes), stacked)

    @property
    def count(self) -> Any:
        return self.sizes.shape[0]

    @property
    def starts(self) -> Tensor:
        """Places of the first elements of the parts."""
        return self.sizes.cumsum(0) - self.sizes

    def at(self, number: Any) -> Tensor:
        """Return the part with this number."""
        start, size = self.starts[number].item(), self.sizes[number].item()
        for holds in (start >= 0, size >= 0, start + size <= self.whole.shape[self.axis]):
            torch._check(holds)
        return self.whole.narrow(self.axis, start, size)  # type: ignore[arg-type]  # symbolic numbers

    def padded(self, filling: Any) -> Tensor:
        """Return the parts in one tensor, [parts, longest, ...], filled up behind them."""
        rows, longest = self.whole.movedim(self.axis, 0), self.sizes.max().item()
        torch._check(longest >= 0)
        steps: Any = torch.arange(longest, device=rows.device)
        places = (self.starts[:, None] + steps).clamp(max=rows.shape[0] - 1)
        inside = (steps < self.sizes[:, None]).reshape(*places.shape, *(1 for _ in rows.shape[1:]))
        return torch.where(inside, rows[places], torch.full((), filling, dtype=rows.dtype, device=rows.device))

    @property
    def shape(self) -> list[Any]:
        return [UNKNOWN if axis == self.axis else each for axis, each in enumerate(self.whole.shape)]

    def reshape(self, *sizes: Any) -> Ragged:
        """Reshape to `(-1, *rest)`, where each step along the axis is a whole number of new rows."""
        first, *rest = sizes[0] if isinstance(sizes[0], (list, tuple)) else sizes
        if self.axis or type(first) is not int or first != -1 or UNKNOWN in rest:
            raise LoopError("parts of different sizes in another form")
        if not statically_known_true(math.prod(self.whole.shape[1:]) % math.prod(rest) == 0):
            raise LoopError("parts of different sizes in rows of which there may be fractions")
        several = math.prod(self.whole.shape[1:]) // math.prod(rest)
        return Ragged(self.whole.reshape(-1, *rest), 0, self.sizes * several)

    view = reshape


UNKNOWN = object()
"""Stands for the size of a part."""
