"""Items that loops leave in lists: as many elements as a dynamic size has, in the place of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from fxport.exporter.capture.control_flow.lifting import HoldsItems
from fxport.exporter.capture.control_flow.merging import DTYPES, LoopError, are_of_one_kind
from fxport.exporter.capture.control_flow.ragged import Ragged
from fxport.exporter.capture.control_flow.truth import as_tensor
from fxport.exporter.capture.guards.askers import Line


class StackedItems(HoldsItems):
    """The elements that a loop appended to a list, as one tensor with the turns as its first axis, or as a Ragged.

    It stands in the list as one element. `torch.stack` and `torch.cat` of such a list do what they would do with all
    elements; whatever else is done with it is refused.
    """

    branches: frozenset[Line] = frozenset()
    """The lines of the branch that appended it."""

    def __init__(self, stacked: Any, last: Any = None, *, numbers: bool = False) -> None:
        self.stacked, self.last, self.numbers = stacked, last, numbers

    numbers: bool = False
    """True if the elements are numbers, and the tensor has those of one kind."""

    last: Any = None
    """The last of the elements where the loop has carried that, or what the list had last where no turn has run."""

    @property
    def count(self) -> Any:
        return self.stacked.count if isinstance(self.stacked, Ragged) else self.stacked.shape[0]

    def turned(self) -> StackedItems:
        """Return the elements from the last to the first."""
        return StackedItems(tensor_of(self).flip(0), numbers=self.numbers)

    def leaves(self) -> list[Any]:
        """Return the tensors and numbers that it holds."""
        rows = self.stacked.leaves() if isinstance(self.stacked, Ragged) else [self.stacked]
        return [*rows, *([] if self.last is None else [self.last])]

    def mapped(self, change: Callable[[Any], Any]) -> StackedItems:
        """Return the same items made of others in the place of these tensors and numbers."""
        stacked = self.stacked.mapped(change) if isinstance(self.stacked, Ragged) else change(self.stacked)
        return StackedItems(stacked, None if self.last is None else change(self.last), numbers=self.numbers)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        joined = JOINED.get(func)
        if joined is None:
            raise LoopError(f"{func} of a list that a loop over a dynamic size fills")
        return joined(*args, **(kwargs or {}))


class MaybeItem(StackedItems):
    """An element that a branch appended, a tensor or a number: it is in the list where `on` is true."""

    def __init__(self, item: Any, on: Tensor, branches: frozenset[Line]) -> None:
        self.item, self.on, self.branches, self._rows = item, on, branches, None
        self.numbers = are_of_one_kind([item])

    def leaves(self) -> list[Any]:
        return [self.item, self.on]

    def mapped(self, change: Callable[[Any], Any]) -> MaybeItem:
        return MaybeItem(change(self.item), change(self.on), self.branches)

    @property
    def stacked(self) -> Any:  # type: ignore[override]  # computed where it is first needed
        if not isinstance(self.item, (Tensor, *DTYPES)):
            raise LoopError("it appends on one of its ways what no tensor holds", self.branches)
        if self._rows is None:
            self._rows = as_tensor(self.item).unsqueeze(0)[self.on.reshape(1)]
        return self._rows

    @stacked.setter
    def stacked(self, value: Any) -> None:
        self._rows = value


class Closed(StackedItems):
    """An item that may not be read."""

    def leaves(self) -> list[Any]:
        return []

    def mapped(self, change: Callable[[Any], Any]) -> Closed:
        return self

    @property
    def stacked(self) -> Any:  # type: ignore[override]  # nobody may have it
        raise LoopError(READ)


class Unread(Closed):
    """Stands in a list for what other turns append to it, which no turn may read; it may ask how many there are."""

    def __init__(self, count: Callable[[], Any]) -> None:
        self._count = count

    @property
    def count(self) -> Any:
        return self._count()


class AtFront(Closed):
    """An element that a turn of a loop has put at the head of a list: that of the next turn will stand before it."""

    def __init__(self, item: Any) -> None:
        self.item = item

    @property
    def count(self) -> Any:
        return self.item.count if isinstance(self.item, StackedItems) else 1


READ = "a turn reads a list to which the turns append"


def tensor_of(items: StackedItems) -> Tensor:
    if not isinstance(items.stacked, Tensor):
        raise unreadable()
    return items.stacked


def unreadable(entries: Iterable[Any] = ()) -> LoopError:
    branches = (each.branches for each in entries if isinstance(each, StackedItems))
    return LoopError(
        "it needs single elements of a list of as many elements as a dynamic size has", frozenset().union(*branches)
    )


def stack(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """Do as `torch.stack` for a list with stacked items in it."""
    whole = [_parts(each) if isinstance(each, StackedItems) else each.unsqueeze(0) for each in _entries(tensors)]
    rank = max(each.dim() for each in whole)
    return (whole[0].clone() if len(whole) == 1 else torch.cat(whole)).movedim(0, dim % rank)


def cat(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """Do as `torch.cat` for a list with stacked items in it."""
    whole = [_merged(each.stacked, dim) if isinstance(each, StackedItems) else each for each in _entries(tensors)]
    return whole[0].clone() if len(whole) == 1 else torch.cat(whole, dim)


def _entries(tensors: Sequence[Any]) -> list[Any]:
    return [*list.__iter__(tensors)] if isinstance(tensors, list) else [*tensors]


def _parts(items: StackedItems) -> Tensor:
    """Return parts that can be stacked: of one size, so that none of them was filled up."""
    if not isinstance(items.stacked, Ragged):
        return items.stacked
    if items.stacked.stacked is None:
        raise LoopError("a stack of parts of different sizes")
    return items.stacked.stacked


def _merged(stacked: Tensor | Ragged, dim: int) -> Tensor:
    if isinstance(stacked, Ragged):
        if dim % stacked.whole.dim() != stacked.axis:
            raise LoopError("parts of different sizes joined along another axis")
        return stacked.whole
    axis = dim % (stacked.dim() - 1)
    return stacked.movedim(0, axis).flatten(axis, axis + 1)


JOINED = {torch.stack: stack, torch.cat: cat, torch.concat: cat, torch.concatenate: cat}
"""The functions that take a list with stacked items in it."""
