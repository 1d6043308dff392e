"""Elements of lists to which branches append: each is in the list for certain, or where a test holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from fxport.exporter.capture.control_flow.branches import chosen
from fxport.exporter.capture.control_flow.merging import LoopError
from fxport.exporter.capture.control_flow.stacked_items import MaybeItem
from fxport.exporter.capture.guards.askers import Line


def entry_at(entries: Sequence[Any], key: int) -> Any:
    """Return `entries[key]`, counted from that end of the list, where some entries may not be in it.

    Raises:
        LoopError: The list may have fewer entries, or it takes more than one test to tell which entry it is.
    """
    ordered = [*entries] if key >= 0 else [*reversed(entries)]
    behind = key if key >= 0 else -1 - key
    certain = 0
    while certain < len(ordered) and not isinstance(ordered[certain], MaybeItem):
        certain += 1
    if behind < certain:
        return ordered[behind]
    if behind > certain or behind >= len(ordered):
        raise LoopError("it asks for an element whose place in the list depends on data", _branches(ordered))
    return _first(ordered[certain:])


def _branches(entries: Sequence[Any]) -> frozenset[Line]:
    return frozenset().union(*(each.branches for each in entries if isinstance(each, MaybeItem)))


def _first(entries: Sequence[Any]) -> Any:
    """Return the first of the entries that is in the list."""
    if not entries:
        raise LoopError("it asks for an element of a list that may have none")
    first, *others = entries
    if not isinstance(first, MaybeItem):
        return first
    if not others:
        raise LoopError("it asks for an element of a list that may have none", first.branches)
    return chosen(first.on, lambda: first.item, lambda: _first(others))


def total_of(entries: Sequence[Any], start: Any) -> Any:
    """Return what Python's `sum` gives of a list of which some entries may not be in it."""
    total = start
    for each in entries:
        total = _added(total, each) if isinstance(each, MaybeItem) else total + each
    return total


def _added(total: Any, entry: MaybeItem) -> Any:
    if isinstance(entry.item, Tensor) and not isinstance(total, Tensor):
        raise LoopError("a sum of what may be nothing", entry.branches)
    return chosen(entry.on, lambda: total + entry.item, lambda: total)
