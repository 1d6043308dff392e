"""Writes at a place that is known only when the model runs: `x[:, i] = value`, where `i` is a tensor without axes."""

from __future__ import annotations

from typing import Any

import torch
from torch import SymInt, Tensor

INDICES = (torch.int64, torch.int32, torch.int16, torch.int8)


def write_at(x: Tensor, key: Any, value: Any) -> Any:
    """`x[key] = value` as an index_put; PyTorch would ask for the number. NotImplemented for any other key.

    The slices, new axes and plain numbers of the key are taken first, which gives a view of `x`.
    """
    parts = key if isinstance(key, tuple) else (key,)
    if not any(_is_place(part) for part in parts) or not all(_is_place(part) or _is_basic(part) for part in parts):
        return NotImplemented
    view = x[tuple(slice(None) if _is_place(part) else part for part in parts)]
    taken = sum(part is not None and part is not Ellipsis for part in parts)
    places: list[Tensor | None] = []
    for part in parts:
        if part is Ellipsis:
            places += [None] * (x.dim() - taken)
        elif _is_place(part):
            places.append(part if isinstance(part, Tensor) else torch.scalar_tensor(part, dtype=torch.int64))
        elif not isinstance(part, int):
            places.append(None)
    given = value if isinstance(value, Tensor) else torch.scalar_tensor(value, dtype=x.dtype, device=x.device)
    rank = view.dim() - sum(place is not None for place in places)
    while given.dim() > rank and given.shape[0] == 1:  # as PyTorch takes it
        given = given.squeeze(0)
    torch.ops.aten.index_put_(view, places, given.to(x.dtype))
    return None


def _is_place(part: Any) -> bool:
    return isinstance(part, SymInt) or (isinstance(part, Tensor) and part.dim() == 0 and part.dtype in INDICES)


def _is_basic(part: Any) -> bool:
    return part is None or part is Ellipsis or isinstance(part, slice) or type(part) is int
