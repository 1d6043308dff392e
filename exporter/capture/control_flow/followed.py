"""Parts of a list that a loop carries where its turns read them: its last element, its length, or all elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

from fxport.exporter.capture.control_flow.merged import watch_copies
from fxport.exporter.capture.control_flow.merging import DTYPES, LoopError
from fxport.exporter.capture.control_flow.truth import as_tensor


def _last_of(before: Any) -> Any:
    if not list.__len__(before):
        raise LoopError("a turn reads the last element of a list that may have none")
    return before[-1]


def _room_of(before: Any, more: Any) -> Tensor:
    """Return the elements that stand in a list, with room for so many more."""
    entries = [*before.entries()]
    if not entries:
        raise LoopError("a turn reads a list that may be empty before it, to which the turns append")
    numbers = [as_tensor(each).reshape(1) for each in entries if isinstance(each, tuple(DTYPES))]
    rows = torch.cat(numbers) if len(numbers) == len(entries) else before.joined()
    room = rows.new_zeros((before.size + more, *rows.shape[1:]))
    room = room.index_copy(0, torch.arange(before.size, device=rows.device), rows)
    watch_copies(room, [each for each in before.leaves() if isinstance(each, Tensor)])
    return room


def written(room: Tensor, number: Any, value: Any, *, numbers: bool) -> Tensor:
    """Return the room of a list with a value as the element of this number; a write to either of them is refused.

    Raises:
        LoopError: The value is of another kind than the elements that stand in the list.
    """
    row = as_tensor(value) if isinstance(value, (Tensor, *DTYPES)) else None
    is_number = not isinstance(value, Tensor)
    if row is None or is_number is not numbers or row.dtype is not room.dtype or row.dim() != room.dim() - 1:
        raise LoopError("a list that has no fixed number of elements gets values of different kinds")
    for size, other in zip(row.shape, room.shape[1:], strict=True):
        if not statically_known_true(size == other):
            raise LoopError("a list that has no fixed number of elements gets tensors of different sizes")
    made = room.index_copy(0, torch.full((1,), number, device=room.device), row.unsqueeze(0))
    if row is value:
        watch_copies(made, [row])
    return made


FOLLOWED: Mapping[str, Callable[[Any, Any], Any]] = {
    "last": lambda before, more: _last_of(before),
    "length": lambda before, more: before.size,
    "room": _room_of,
}
"""Parts of a list that a loop may carry, from what stands in the list before it and the number of elements more."""
