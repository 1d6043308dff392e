"""`SymbolicList`: what Python makes of a tensor with as many rows as a dynamic size has, as by `list(x)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partialmethod
from typing import Any

import torch
from torch import SymInt, Tensor

from fxport.exporter.capture.control_flow.lists import GUARDED, ScanList
from fxport.exporter.capture.control_flow.merging import LoopError
from fxport.exporter.capture.control_flow.stacked_items import StackedItems, unreadable
from fxport.exporter.capture.patches.extremes import watch_turned
from fxport.exporter.capture.patches.numbers import number


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
            raise unreadable(list.__iter__(self))
        return getattr(self._plain(), name)(*given)

    __hash__ = None  # type: ignore[assignment]  # as that of a list


for _name in (*GUARDED, "__add__", "__bool__", "__ge__", "__getitem__", "__gt__", "__iadd__", "__imul__", "__le__",
              "__lt__", "__ne__", "__radd__", "__rmul__", "__setitem__", "append", "clear", "copy", "extend", "insert",
              "pop", "reverse"):  # fmt: skip
    setattr(SymbolicList, _name, partialmethod(SymbolicList._plainly, _name))


class Rows(SymbolicList):
    """The rows of a tensor, of which each can be had by its number, as a view."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__([StackedItems(rows)])
        self._rows = rows

    @staticmethod
    def of(source: Any) -> Rows | None:
        """Return the elements that Python finds in such rows, or in a tensor of as many; None of anything else."""
        if isinstance(source, Rows):
            return source
        is_dynamic = isinstance(source, Tensor) and source.dim() > 0 and isinstance(source.shape[0], SymInt)
        return Rows(source) if is_dynamic else None

    def __getitem__(self, key: Any) -> Any:  # type: ignore[override]  # a tensor, or rows
        if isinstance(key, Tensor):
            raise unreadable(list.__iter__(self))
        if not isinstance(key, slice):
            return self._rows[number(key)]
        if key.step is None or (type(key.step) is int and key.step > 0):
            return Rows(self._rows[key])
        if (key.start, key.stop, key.step) != (None, None, -1):
            raise LoopError("it takes a part of a list of a dynamic size from its end to its start")
        turned = self._rows.flip(0)
        watch_turned(turned, self._rows)
        return Rows(turned)

    def unpacked(self, before: int, after: int) -> list[Any]:
        """Return the values of `before` names, of one with a star, and of `after` more."""
        if self._rows.shape[0] < before + after:
            raise ValueError(f"not enough values to unpack (expected at least {before + after})")
        rest = self[before : -after or None]
        return [*(self[i] for i in range(before)), rest, *(self[i] for i in range(-after, 0))]


class Parts(SymbolicList):
    """The parts of a tensor along an axis, of one size but for the last: each can be had by its number as a view."""

    def __init__(self, items: StackedItems, plain: Callable[[], Any], x: Tensor, axis: int, size: int) -> None:
        super().__init__([items], plain)
        self._x, self._axis, self._size = x, axis, size

    def __getitem__(self, key: Any) -> Any:  # type: ignore[override]  # a tensor
        if type(key) is not int or key < -1:
            return self._plainly("__getitem__", key)
        whole = self._x.shape[self._axis]
        start = key * self._size if key >= 0 else (whole - 1) // self._size * self._size
        if key > 0 and start >= whole:  # which limits sizes to those for which there is one
            raise IndexError("list index out of range")
        return self._x.narrow(self._axis, start, torch.sym_min(self._size, whole - start))  # type: ignore[arg-type]


def unwrap(value: Any) -> Any:
    """Return what a list of a dynamic number of elements was made of; other values as they are."""
    if isinstance(value, ScanList) and value.is_dynamic:
        entries = [*value.entries()]
        only = entries[0] if len(entries) == 1 else None
        return only.stacked if isinstance(only, StackedItems) else value.joined()
    if not isinstance(value, SymbolicList):
        return value
    if list.__len__(value) != 1:
        raise LoopError("a list that has no fixed number of elements, and more")
    return list.__getitem__(value, 0).stacked
