"""Lists that stand for as many elements as a dynamic size has.

`ScanList` is a list of the model's that a loop appends to; each loop leaves one `StackedItems` in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import SymInt, Tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from fxport.exporter.capture.control_flow.followed import FOLLOWED, written
from fxport.exporter.capture.control_flow.lifting import HoldsItems, is_rehearsal
from fxport.exporter.capture.control_flow.merging import LoopError
from fxport.exporter.capture.control_flow.ragged import Ragged
from fxport.exporter.capture.control_flow.stacked_items import (
    READ,
    AtFront,
    FirstItems,
    ListRead,
    MaybeItem,
    StackedItems,
    StackedTuples,
    Unread,
    joined_tuples,
    tensor_of,
    unreadable,
)
from fxport.exporter.capture.control_flow.turns import in_turns
from fxport.exporter.capture.patches.extremes import watch_turned


class ScanList(list[Any], HoldsItems):
    """A list of a rewritten function. With stacked items in it, it does what can be done with all of its elements.

    Python's own list would take stacked items for one element.
    """

    _fxport_in_words = "a list that a loop fills"
    last: Any
    length: Any
    room: Tensor

    @property
    def is_dynamic(self) -> bool:
        return any(isinstance(each, StackedItems) for each in self.entries())

    @property
    def is_bounded(self) -> bool:
        """True if the list has a fixed number of entries, and only their presence depends on data."""
        return all(isinstance(each, MaybeItem) for each in self.entries() if isinstance(each, StackedItems))

    def entries(self) -> Iterator[Any]:
        """Yield what is in the list, stacked items as they are."""
        if not self.has_room:
            return list.__iter__(self)
        return iter([FirstItems(self.room, self.size, numbers=self.of_numbers)])

    @property
    def has_room(self) -> bool:
        """True within a turn of a loop that carries all elements."""
        return "room" in vars(self) and any(isinstance(each, StackedItems) for each in list.__iter__(self))

    @property
    def is_unread(self) -> bool:
        """True within a turn of a loop that appends to the list."""
        return any(isinstance(each, Unread) for each in list.__iter__(self))

    def leaves(self) -> list[Any]:
        """Return the tensors and numbers that it holds."""
        return [
            leaf for each in self.entries() for leaf in (each.leaves() if isinstance(each, StackedItems) else [each])
        ]

    def mapped(self, change: Callable[[Any], Any]) -> ScanList:
        """Return the same list made of others in the place of these tensors and numbers."""
        return ScanList(
            each.mapped(change) if isinstance(each, StackedItems) else change(each) for each in self.entries()
        )

    @property
    def of_numbers(self) -> bool:
        """True if the elements that stand in the list are numbers."""
        found = [each for each in list.__iter__(self) if not isinstance(each, Unread)]
        return not any(
            isinstance(each, Tensor) or (isinstance(each, StackedItems) and not each.numbers) for each in found
        )

    @contextmanager
    def following(self, name: str, more: Any) -> Iterator[None]:
        """Keep a part of the list, a key of `FOLLOWED`, as an attribute meanwhile, which a loop carries.

        The loop appends so many elements more.

        Raises:
            LoopError: It is not known from what stands in the list before what turns append.
        """
        before = ScanList(each for each in list.__iter__(self) if not isinstance(each, Unread))
        setattr(self, name, FOLLOWED[name](before, more))
        try:
            yield
            if name == "room" and id(self) in _set:
                list.__setitem__(self, slice(None), [FirstItems(self.room, self.size, numbers=self.of_numbers)])
        finally:
            if name == "room":
                _set.discard(id(self))
            delattr(self, name)

    def learn_length(self) -> None:
        """Let the capture know that the list has as many elements as it had before the loop that carries its length."""
        if "length" in vars(self):
            torch._check(self.length >= sum(not isinstance(each, StackedItems) for each in list.__iter__(self)))

    def require_room(self, more: Any) -> None:
        """Raise LoopError where a loop carries the elements and has no room for so many more."""
        if "room" in vars(self) and not statically_known_true(self.size + more <= self.room.shape[0]):
            raise LoopError("a turn reads a list to which a loop in it appends")

    def append(self, value: Any) -> None:
        followed = vars(self)
        if "room" in followed:
            self.room = written(self.room, self.size, value, numbers=self.of_numbers)
        list.append(self, value)
        if "last" in followed:
            followed["last"] = value
        if "length" in followed:
            followed["length"] += 1

    def extend(self, values: Iterable[Any]) -> None:
        if isinstance(values, ScanList) and values.is_dynamic and not self.is_unread:
            list.extend(self, values.entries())
            return
        for each in [*values]:
            self.append(each)

    def copy(self) -> ScanList:
        return ScanList(self.entries())

    def __add__(self, other: Any) -> Any:
        return (
            ScanList([*self.entries(), *_entries_of(other)]) if isinstance(other, list) else list.__add__(self, other)
        )

    def __radd__(self, other: list[Any]) -> ScanList:
        return ScanList([*_entries_of(other), *self.entries()])

    def pop(self, index: Any = -1) -> Any:
        """Take the last element away, also of stacked items of which there is one for certain."""
        if not self.is_dynamic:
            return list.pop(self, index)
        if vars(self):
            raise unreadable(self.entries())
        newest = self.newest
        if index == -1 and not isinstance(newest, StackedItems):
            return list.pop(self)
        if index != -1 or self.is_unread or type(newest) is not StackedItems or isinstance(newest.stacked, Ragged):
            raise unreadable(self.entries())
        if not statically_known_true(newest.count > 0):
            raise LoopError("it takes the last element away of a list that may have none")
        element = newest.row(-1)
        list.__setitem__(self, -1, StackedItems(newest.stacked[:-1], numbers=newest.numbers))
        return element

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, SymInt) and free_unbacked_symbols(key) and is_rehearsal() and not self.is_dynamic:
            key = -1  # any one will do
        if not self.is_dynamic:
            list.__setitem__(self, key, value)
            return
        place = 0 if type(key) is int and key == 0 else -1 if self._is_last(key) else None
        if place is None or isinstance(list.__getitem__(self, place), StackedItems):
            self._replace(key, value)
            return
        list.__setitem__(self, place, value)
        if "room" in vars(self):
            row = 0 if place == 0 else self.size - 1
            self.room = written(self.room, row, value, numbers=self.of_numbers)
            _set.add(id(self))
        if place == -1 and "last" in vars(self):
            self.last = value

    def _is_last(self, key: Any) -> bool:
        return (type(key) is int and key == -1) or (
            isinstance(key, SymInt) and statically_known_true(key == self.size - 1)
        )

    def _replace(self, key: Any, value: Any) -> None:
        """Put another element in the place of one among stacked items.

        Raises:
            LoopError: The number is not known to be that of such an element.
        """
        if isinstance(key, slice):
            raise unreadable(self.entries())
        row = self.size + key if type(key) is int and key < 0 else key
        known = self._has(row)
        if not self.has_room and id(self) in in_turns:
            raise unreadable(list.__iter__(self)) if self.is_unread else ListRead(self, "room", 0)
        if self.has_room:
            if not (known or is_rehearsal()):
                raise unreadable(self.entries())
            self.room = written(self.room, row, value, numbers=self.of_numbers)
            _set.add(id(self))
            if "last" in vars(self):
                self.last = self.room[self.size - 1]
            return
        entries = [*self.entries()]
        if len(entries) != 1 or isinstance(entries[0], StackedTuples) or not known:
            raise unreadable(entries)
        rows = tensor_of(entries[0])
        made = written(rows, row, value, numbers=entries[0].numbers)
        watch_turned(made, rows)
        list.__setitem__(self, 0, StackedItems(made, numbers=entries[0].numbers))

    def insert(self, index: Any, value: Any) -> None:
        if type(index) is not int or index != 0 or "room" in vars(self):
            if self.is_dynamic:
                raise unreadable(self.entries())
            list.insert(self, index, value)
        elif id(self) in in_turns:
            list.append(self, AtFront(value))
        else:
            list.insert(self, 0, value)
        if "length" in vars(self):
            self.length += 1

    def __iadd__(self, values: Iterable[Any]) -> ScanList:  # type: ignore[override, misc]  # as a list does
        self.extend(values)
        return self

    def __bool__(self) -> bool:
        """Return whether there is an element; of stacked items there may be none."""
        if not self.is_dynamic or any(not isinstance(each, StackedItems) for each in list.__iter__(self)):
            return list.__len__(self) > 0
        raise unreadable(self.entries())

    @property
    def size(self) -> Any:
        """Number of elements, symbolic where it is."""
        if "length" in vars(self):
            return self.length
        return sum(each.count if isinstance(each, StackedItems) else 1 for each in list.__iter__(self))

    def joined(self) -> Tensor:
        """Return all elements along a new first axis.

        Raises:
            LoopError: They are not all tensors.
        """
        whole = [
            each.stacked if isinstance(each, StackedItems) else each.unsqueeze(0) if isinstance(each, Tensor) else None
            for each in self.entries()
        ]
        if not all(isinstance(each, Tensor) for each in whole):
            raise LoopError("a list of other things than tensors, which has no fixed number of elements")
        return whole[0] if len(whole) == 1 else torch.cat(whole)  # type: ignore[return-value, arg-type]  # as just seen

    def turned(self) -> ScanList:
        """Return the elements from the last to the first."""
        made = ScanList()
        for each in reversed([*self.entries()]):
            list.append(made, each.turned() if isinstance(each, StackedItems) else each)
            if isinstance(each, StackedItems):
                watch_turned(tensor_of(made.newest), tensor_of(each))
        return made

    @property
    def tuples(self) -> StackedTuples | None:
        """The items of a list of tuples of one form, of which there is a dynamic number."""
        entries = [*self.entries()]
        if not any(isinstance(each, StackedTuples) for each in entries):
            return None
        return entries[0] if len(entries) == 1 else joined_tuples(entries)

    @property
    def newest(self) -> Any:
        """The entry that stands last, stacked items as they are."""
        return list.__getitem__(self, -1)

    def reverse(self) -> None:
        list.__setitem__(self, slice(None), [*self.turned().entries()])

    def _row_at(self, key: SymInt) -> Any:
        """Return an element among those of the only stacked items, which no entry follows.

        Raises:
            LoopError: The list is another one, or the number is not known to be that of such an element.
        """
        *before, found = self.entries()
        if isinstance(found, StackedItems) and not any(isinstance(each, StackedItems) for each in before):
            row = key - len(before)
            if statically_known_true(row >= 0) and statically_known_true(row < found.count):
                return found.row(row)
        raise unreadable(self.entries())

    def _carried_at(self, key: Any) -> Any:
        """Return an element of a list that a loop carries.

        Raises:
            LoopError: The number is not known to be that of an element.
        """
        newest = self.newest
        if type(key) is int and key == -1 and not isinstance(newest, StackedItems):
            return newest
        row = self.size + key if type(key) is int and key < 0 else key
        if not is_rehearsal() and not self._has(row):
            raise unreadable(self.entries())
        return self.room[row].item() if self.of_numbers else self.room[row]

    def _has(self, row: Any) -> bool:
        """Return whether there is an element of this number for certain, perhaps one of an earlier turn."""
        entries = [*list.__iter__(self)]
        turn = next((i for i, each in enumerate(reversed(entries)) if isinstance(each, Unread)), 0)
        below = any(statically_known_true(row < bound) for bound in (self.size, self.size - turn))
        return below and statically_known_true(row >= 0)

    def _part(self, key: slice) -> ScanList:
        """Return a part of the list, from its start to its end. Raises LoopError for one from its end to its start."""
        entries = [*self.entries()]
        if key.step is not None and not (type(key.step) is int and key.step > 0):
            raise unreadable(entries)
        single = next((i for i, each in enumerate(entries) if isinstance(each, StackedItems)), 0)
        if (key.stop, key.step) == (None, None) and type(key.start) is int and 0 <= key.start <= single:
            return ScanList(entries[key.start :])
        rows = tensor_of(entries[0]) if len(entries) == 1 else self.joined()
        part = rows[key]
        if len(entries) > 1:
            watch_turned(part, rows)
        return ScanList([StackedItems(part, numbers=len(entries) == 1 and entries[0].numbers)])

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, SymInt) and free_unbacked_symbols(key):
            any_will_do = is_rehearsal() and not self.is_unread and not self.has_room
            key = -1 if any_will_do or statically_known_true(key == self.size - 1) else key
        if in_turns.get(id(self)) and not (type(key) is int and key == -1):
            raise LoopError(READ)
        if not self.is_dynamic:
            return list.__getitem__(self, key)
        if isinstance(key, slice):
            return self.turned() if (key.start, key.stop, key.step) == (None, None, -1) else self._part(key)
        if type(key) is int and key == -1 and "last" in vars(self):
            return self.last
        if self.has_room:
            return self._carried_at(key)
        if type(key) is int and self.is_bounded:
            from fxport.exporter.capture.control_flow.entries import entry_at

            return entry_at([*self.entries()], key)
        if isinstance(key, SymInt):
            return self._row_at(key)
        if type(key) is int and key in (0, -1):
            found = list.__getitem__(self, key)
            if not isinstance(found, StackedItems):
                return found
            if key == -1 and isinstance(found, Unread):
                raise ListRead(self, "last")
            if key == -1 and found.last is not None:
                return found.last
            if statically_known_true(found.count > 0):  # else Python takes the element beside it, or raises
                return found.row(key)
        raise unreadable(self.entries())


_set: set[int] = set()
"""The ids of lists that a loop carries, and in which its turns put other elements in the place of earlier ones."""


def _guarded(name: str) -> Any:
    own = getattr(list, name)

    def method(self: ScanList, *args: Any) -> Any:
        if self.is_dynamic:
            raise unreadable(self.entries())
        return own(self, *args)

    return method


GUARDED = ("__iter__", "__len__", "__reversed__", "__contains__", "__eq__", "__mul__", "__delitem__",
           "remove", "index", "count", "sort")  # fmt: skip
"""Methods of lists that would take stacked items for one element."""

for _name in GUARDED:
    setattr(ScanList, _name, _guarded(_name))


def _entries_of(values: list[Any]) -> Iterable[Any]:
    return values.entries() if isinstance(values, ScanList) else values


def counted(test: Any) -> Any:
    """Return the number of elements of a list whose truth is asked, if a size or data tells it; else the value."""
    if not isinstance(test, ScanList) or not test.is_dynamic:
        return test
    return True if statically_known_true(test.size > 0) else test.size
