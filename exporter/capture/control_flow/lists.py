"""Lists that stand for as many elements as a dynamic size has.

`ScanList` is a list of the model's that a loop appends to; each loop leaves one `StackedItems` in it. `SymbolicList` is
what Python makes of a tensor: `list(x)`, `x.unbind(0)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partialmethod
from typing import Any

import torch
from torch import SymInt, Tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from fxport.exporter.capture.control_flow.lifting import HoldsItems, is_rehearsal
from fxport.exporter.capture.control_flow.merging import LoopError
from fxport.exporter.capture.control_flow.stacked_items import (
    READ,
    AtFront,
    MaybeItem,
    StackedItems,
    Unread,
    tensor_of,
    unreadable,
)
from fxport.exporter.capture.patches.extremes import watch_turned


class ListRead(LoopError):
    """A turn reads of a list to which the turns append what the loop may carry: its last element, or its length."""

    def __init__(self, owner: ScanList, name: str) -> None:
        super().__init__(READ)
        self.owner, self.name = owner, name


class ScanList(list[Any], HoldsItems):
    """A list of a rewritten function. With stacked items in it, it does what can be done with all of its elements.

    Python's own list would take stacked items for one element.
    """

    last: Any
    length: Any

    @property
    def is_dynamic(self) -> bool:
        return any(isinstance(each, StackedItems) for each in self.entries())

    @property
    def is_bounded(self) -> bool:
        """True if the list has a fixed number of entries, and only their presence depends on data."""
        return all(isinstance(each, MaybeItem) for each in self.entries() if isinstance(each, StackedItems))

    def entries(self) -> Iterator[Any]:
        """Yield what is in the list, stacked items as they are."""
        return list.__iter__(self)

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

    @contextmanager
    def following(self, name: str) -> Iterator[None]:
        """Keep `last`, the last element, or `length` as an attribute meanwhile, which a loop carries.

        Raises:
            LoopError: It is not known from what stands in the list before what turns append.
        """
        before = ScanList(each for each in self.entries() if not isinstance(each, Unread))
        setattr(self, name, FOLLOWED[name](before))
        try:
            yield
        finally:
            delattr(self, name)

    def append(self, value: Any) -> None:
        list.append(self, value)
        followed = vars(self)
        if "last" in followed:
            followed["last"] = value
        if "length" in followed:
            followed["length"] += 1

    def extend(self, values: Iterable[Any]) -> None:
        for each in [*values]:
            self.append(each)

    def insert(self, index: Any, value: Any) -> None:
        if type(index) is not int or index != 0:
            if self.is_dynamic:
                raise unreadable(self.entries())
            list.insert(self, index, value)
        elif id(self) in _in_turns:
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
        if not self.is_dynamic or any(not isinstance(each, StackedItems) for each in self.entries()):
            return list.__len__(self) > 0
        raise unreadable(self.entries())

    @property
    def size(self) -> Any:
        """Number of elements, symbolic where it is."""
        if "length" in vars(self):
            return self.length
        return sum(each.count if isinstance(each, StackedItems) else 1 for each in self.entries())

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
            raise LoopError("a list of other things than tensors, of as many as a dynamic size has")
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
                element = tensor_of(found)[row]
                return element.item() if found.numbers else element
        raise unreadable(self.entries())

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, SymInt) and free_unbacked_symbols(key):
            key = -1 if is_rehearsal() or statically_known_true(key == self.size - 1) else key  # there any one will do
        if _in_turns.get(id(self)) and not (type(key) is int and key == -1):
            raise LoopError(READ)
        if not self.is_dynamic:
            return list.__getitem__(self, key)
        if isinstance(key, slice) and (key.start, key.stop, key.step) == (None, None, -1):
            return self.turned()
        if type(key) is int and key == -1 and "last" in vars(self):
            return self.last
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
            if statically_known_true(
                tensor_of(found).shape[0] > 0
            ):  # else Python takes the element beside it, or raises
                return tensor_of(found)[key].item() if found.numbers else tensor_of(found)[key]
        raise unreadable(self.entries())


_in_turns: dict[int, bool] = {}
"""The ids of lists that are there before a loop whose turns run now, and whether these put elements at the head."""


@contextmanager
def turns_entered(lists: Iterable[tuple[ScanList, bool]]) -> Iterator[None]:
    """Let lists know meanwhile that a turn of a loop runs, and whether the turns put elements at their heads."""
    before = {**_in_turns}
    for each, has_front in lists:
        _in_turns[id(each)] = has_front or before.get(id(each), False)
    try:
        yield
    finally:
        _in_turns.clear()
        _in_turns.update(before)


def _last_of(before: ScanList) -> Any:
    if not list.__len__(before):
        raise LoopError("a turn reads the last element of a list that may have none")
    return before[-1]


FOLLOWED: Mapping[str, Callable[[ScanList], Any]] = {"last": _last_of, "length": lambda before: before.size}
"""Parts of a list that a loop may carry, from what stands in the list before it."""


def _guarded(name: str) -> Any:
    own = getattr(list, name)

    def method(self: ScanList, *args: Any) -> Any:
        if self.is_dynamic:
            raise unreadable(self.entries())
        return own(self, *args)

    return method


GUARDED = ("__iter__", "__len__", "__reversed__", "__contains__", "__eq__", "__add__", "__mul__", "__setitem__",
           "__delitem__", "pop", "remove", "index", "count", "copy", "sort", "clear")  # fmt: skip
"""Methods of lists that would take stacked items for one element."""

for _name in GUARDED:
    setattr(ScanList, _name, _guarded(_name))


def _added_to(self: ScanList, other: list[Any]) -> Any:
    """Return `other + self`, of which Python would copy the entries as they are."""
    if self.is_dynamic:
        raise unreadable(self.entries())
    return list.__add__(other, self)


ScanList.__radd__ = _added_to  # type: ignore[attr-defined]  # which a list has not


class SymbolicList(list[StackedItems]):
    """The elements of a tensor: Python may not count them or go through them one by one.

    Args:
        items: The elements, stacked.
        plain: Gives them one by one, of which the number is one of the graph's sizes then.
    """

    def __init__(self, items: Iterable[StackedItems], plain: Callable[[], Any] | None = None) -> None:
        super().__init__(items)
        self._plain = plain

    def _plainly(self, name: str, *given: Any) -> Any:
        if self._plain is None:
            raise unreadable()
        return getattr(self._plain(), name)(*given)

    __hash__ = None  # type: ignore[assignment]  # as that of a list


for _name in (*GUARDED, "__getitem__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__radd__", "__iadd__",
              "__rmul__", "__imul__", "__bool__", "append", "extend", "insert", "reverse"):  # fmt: skip
    setattr(SymbolicList, _name, partialmethod(SymbolicList._plainly, _name))


def counted(test: Any) -> Any:
    """Return the number of elements of a list whose truth is asked, if a size or data tells it; else the value."""
    if not isinstance(test, ScanList) or not test.is_dynamic:
        return test
    return True if statically_known_true(test.size > 0) else test.size


def unwrap(value: Any) -> Any:
    """Return what a list of a dynamic number of elements was made of; other values as they are."""
    if isinstance(value, ScanList) and value.is_dynamic:
        only = list.__getitem__(value, 0) if list.__len__(value) == 1 else None
        return only.stacked if isinstance(only, StackedItems) else value.joined()
    if not isinstance(value, SymbolicList):
        return value
    if list.__len__(value) != 1:
        raise LoopError("a list of as many elements as a dynamic size has, and more")
    return list.__getitem__(value, 0).stacked
