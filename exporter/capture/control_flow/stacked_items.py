"""Items that loops leave in lists: as many elements as a dynamic size has, in the place of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import SymInt, Tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from fxport.exporter.capture.control_flow.lifting import HoldsItems
from fxport.exporter.capture.control_flow.merging import DTYPES, LoopError, are_of_one_kind
from fxport.exporter.capture.control_flow.ragged import Ragged
from fxport.exporter.capture.control_flow.truth import as_tensor
from fxport.exporter.capture.guards.askers import Line
from fxport.exporter.capture.patches.extremes import watch_turned


class StackedItems(HoldsItems):
    """The elements that a loop appended to a list, as one tensor with the turns as its first axis, or as a Ragged.

    It stands in the list as one element. `torch.stack` and `torch.cat` of such a list do what they would do with all
    elements; whatever else is done with it is refused.
    """

    _fxport_in_words = "the elements of a list that a loop has filled"
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

    def row(self, number: Any) -> Any:
        """Return the element of a number that is in range."""
        element = tensor_of(self)[number]
        return element.item() if self.numbers else element

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        joined = JOINED.get(func)
        if joined is None:
            raise LoopError(f"'{getattr(func, '__name__', func)}' of a list that has no fixed number of elements")
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


class FirstItems(StackedItems):
    """The first `count` rows of a tensor that has room for more, as a loop carries a list to which its turns append."""

    def __init__(self, room: Tensor, count: Any, *, numbers: bool) -> None:
        self.room, self._count, self.numbers = room, count, numbers

    @property
    def count(self) -> Any:
        return self._count

    def leaves(self) -> list[Any]:
        return [self.room, self._count]

    def mapped(self, change: Callable[[Any], Any]) -> FirstItems:
        return FirstItems(change(self.room), change(self._count), numbers=self.numbers)

    @property
    def stacked(self) -> Any:  # type: ignore[override]  # computed where it is needed
        for holds in (self._count >= 0, self._count <= self.room.shape[0]):
            torch._check(holds)
        return self.room.narrow(0, 0, self._count)


class StackedTuples(StackedItems):
    """Tuples of one form: the items in each of their places, which may be tuples themselves, and the last tuple."""

    def __init__(self, spec: Any, columns: Sequence[StackedItems], last: Any = None) -> None:
        self.spec, self.columns, self.last = spec, columns, last

    @property
    def count(self) -> Any:
        return self.columns[0].count

    @property
    def stacked(self) -> Any:  # type: ignore[override]  # there is no such tensor
        raise LoopError("it takes a list of tuples for one of tensors")

    def turned(self) -> StackedTuples:
        return StackedTuples(self.spec, [each.turned() for each in self.columns])

    def leaves(self) -> list[Any]:
        rows = [leaf for each in self.columns for leaf in each.leaves()]
        return [*rows, *([] if self.last is None else pytree.tree_leaves(self.last))]

    def mapped(self, change: Callable[[Any], Any]) -> StackedTuples:
        last = None if self.last is None else pytree.tree_map(change, self.last)
        return StackedTuples(self.spec, [each.mapped(change) for each in self.columns], last)

    def row(self, number: Any) -> Any:
        return pytree.tree_unflatten([each.row(number) for each in self.columns], self.spec)


def joined_tuples(entries: Sequence[Any]) -> StackedTuples | None:
    """Return the entries of a list, tuples and items of such, as one; None where their forms differ."""
    found = [each if isinstance(each, StackedTuples) else _single(each) for each in entries]
    if any(each is None or each.spec != found[0].spec for each in found):  # type: ignore[union-attr]  # as just seen
        return None
    columns: list[StackedItems] = []
    for parts in zip(*(each.columns for each in found if each is not None), strict=True):
        if len({(part.numbers, tensor_of(part).dtype) for part in parts}) > 1:
            return None
        rows = torch.cat([tensor_of(part) for part in parts])
        for part in parts:
            watch_turned(rows, tensor_of(part))
        columns.append(StackedItems(rows, numbers=parts[0].numbers))
    return StackedTuples(found[0].spec, columns)  # type: ignore[union-attr]  # as just seen


def _single(value: Any) -> StackedTuples | None:
    """Return a tuple as items, of which there is one."""
    if not isinstance(value, tuple):
        return None
    parts, spec = pytree.tree_flatten(value)
    if not all(isinstance(each, (Tensor, *DTYPES)) for each in parts):
        return None
    columns = [StackedItems(as_tensor(each).unsqueeze(0), numbers=not isinstance(each, Tensor)) for each in parts]
    return StackedTuples(spec, columns)


class Closed(StackedItems):
    """An item that may not be read."""

    def leaves(self) -> list[Any]:
        return []

    def mapped(self, change: Callable[[Any], Any]) -> Closed:
        return self

    @property
    def stacked(self) -> Any:  # type: ignore[override]  # nobody may have it
        raise LoopError(READ)


class ListRead(LoopError):
    """A turn reads of a list to which the turns append what the loop may carry, a key of `lists.FOLLOWED`."""

    def __init__(self, owner: Any, name: str, each: int = 1) -> None:
        super().__init__(READ)
        self.owner, self.name, self.each = owner, name, each
        """The list, what of it is read, and how many elements each turn appends."""


class Unread(Closed):
    """Stands in a list, its owner, for what other turns append to it; a turn may ask how many elements these are."""

    def __init__(self, owner: Any, each: int, number: Callable[[], Any], count: Callable[[], Any]) -> None:
        self.owner, self.each, self.number, self._count = owner, each, number, count
        """The list, how many elements each turn appends, and the number of the turn, where these are counted."""

    @property
    def stacked(self) -> Any:  # type: ignore[override]  # the loop has to carry it
        raise ListRead(self.owner, "room", self.each)

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
    """Return the error for a list that Python would go through, from its entries."""
    entries = [*entries]
    unread = next((each for each in entries if isinstance(each, Unread)), None)
    if unread is not None:
        return ListRead(unread.owner, "room", unread.each)
    items = [each for each in entries if isinstance(each, StackedItems)]
    told = f"it needs single elements of a list {_number_in_words(items)}"
    return LoopError(told, frozenset().union(*(each.branches for each in items)))


def _number_in_words(items: Sequence[StackedItems]) -> str:
    """Return what decides how many elements a list with these items has."""
    if any(isinstance(each, MaybeItem) for each in items):
        return "whose length a condition decides"
    counts = [each.count for each in items if type(each) is StackedItems]
    if any(isinstance(each, SymInt) and free_unbacked_symbols(each) for each in counts):
        return "whose length the data decide"
    return "of as many elements as a dynamic size has"


def stack(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """Do as `torch.stack` for a list with stacked items in it."""
    whole = [_parts(each) if isinstance(each, StackedItems) else each.unsqueeze(0) for each in _entries(tensors)]
    rank = max(each.dim() for each in whole)
    return (whole[0].clone() if len(whole) == 1 else torch.cat(whole)).movedim(0, dim % rank)


def cat(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """Do as `torch.cat` for a list with stacked items in it."""
    whole = [_merged(each.stacked, dim) if isinstance(each, StackedItems) else each for each in _entries(tensors)]
    return whole[0].clone() if len(whole) == 1 else torch.cat(whole, dim)


def _entries(tensors: Any) -> list[Any]:
    """Return what stands in a list, stacked items as they are."""
    entries = getattr(tensors, "entries", None)  # of a list of ours
    if entries is not None:
        return [*entries()]
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
