"""`torch.cat([x[i, :n] for i, n in enumerate(lengths.tolist())])`: each turn gives as much as its own data says.

What the turns of a scan give has one size. So they go twice: to tell how much each of them gives, and then to give it,
filled up to the most that one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from fxport.exporter.capture.control_flow.merging import LoopError


def known_sizes(x: Any) -> frozenset[Any]:
    """Return the symbols that the capture of a tensor knows up to now."""
    env = getattr(getattr(x, "fake_mode", None), "shape_env", None)
    return frozenset(env.var_to_range) if env is not None else frozenset()


def own_axis(x: Tensor, known: frozenset[Any]) -> int | None:
    """Return the axis along which a turn decides how much there is; None where none is such."""
    axes = [axis for axis, size in enumerate(x.shape) if free_unbacked_symbols(size) - known]
    if len(axes) > 1:
        raise LoopError("turns that give more or less along two axes")
    return axes[0] if axes else None


def count_of(x: Tensor, axis: int | None) -> Tensor:
    return torch.scalar_tensor(0 if axis is None else x.shape[axis], dtype=torch.int64, device=x.device)


def longest_of(counts: Tensor) -> Tensor:
    """Return the most that a turn gives; 0 where there is no turn."""
    return torch.cat([counts, counts.new_zeros(1)]).amax()


def filled(x: Tensor, axis: int, longest: Tensor) -> Tensor:
    """Pad a tensor with zeros at its end, up to the longest."""
    length: Any = longest.item()
    torch._check(length >= 0)
    places = torch.arange(length, device=x.device)
    nothing = x.new_zeros([1 if each == axis else size for each, size in enumerate(x.shape)])
    return torch.cat([x, nothing], axis).index_select(axis, places.clamp(max=count_of(x, axis)))


def joined(stacked: Tensor, axis: int, counts: Tensor) -> Tensor:
    """Join the parts along their axis, without the padding."""
    rows = stacked.movedim(axis + 1, 1)
    inside = torch.arange(rows.shape[1], device=rows.device) < counts[:, None]
    return rows[inside].movedim(0, axis)


def some(axes: Sequence[int | None]) -> bool:
    return any(axis is not None for axis in axes)
