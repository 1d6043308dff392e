"""The source of a `for` with a dynamic number of turns: how many items there are, and each by its number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import SymInt, Tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from fxport.exporter.capture.control_flow.lists import ScanList
from fxport.exporter.capture.control_flow.merging import LoopError
from fxport.exporter.capture.control_flow.number_lists import rows_of
from fxport.exporter.capture.control_flow.ragged import Ragged
from fxport.exporter.capture.control_flow.symbolic_lists import SymbolicList, unwrap
from fxport.exporter.capture.sizes.progressions import Progression


@dataclass(frozen=True, slots=True)
class Items:
    """A dynamic number of items; `at(i)` gives that with the number i, a SymInt from 0 to count - 1."""

    count: Any
    at: Callable[[Any], Any]
    numbers: tuple[Any, ...] = ()
    """Symbolic numbers other than the count that `at` computes with."""
    parts: Ragged | None = None
    """Items of different sizes as parts, where a turn may do the same to all at once."""
    uses: list[bool] | None = None
    """Of an iterator, True for each use of it: it gives its items once."""

    def behind_first(self) -> Items:
        """Return the items without the first one, which is there."""
        return Items(self.count - 1, lambda i: self.at(i + 1), (*self.numbers, self.count))

    def used(self) -> Items:
        """Return the items. Raises LoopError for those of an iterator that was used before."""
        if self.uses:
            raise LoopError("it goes through an iterator for the second time, which then has no items left")
        if self.uses is not None:
            self.uses.append(True)
        return self

    def __iter__(self) -> Any:
        raise LoopError("it goes through as many items as a dynamic size has")

    __len__ = __next__ = __iter__


def unless_iterator(source: Any) -> Any:
    """Return the source of a loop that may end before its items do, as data decide.

    Raises LoopError for an iterator: what is left in it is then known only when the model runs, and the model, or
    whoever else holds it, may go on with that.
    """
    if isinstance(source, Iterator):
        raise LoopError("it leaves an iterator at an item that depends on data, and what is left in it is then unknown")
    return source


def items_of(source: Any) -> Items | None:
    """Return the items of anything that a `for` can run over; None where Python can go through them."""
    if isinstance(source, Items):
        return source
    if isinstance(source, Progression):
        return _of_progression(source)
    if (numbers := rows_of(source)) is not None:
        return Items(numbers.shape[0], lambda i: numbers[i].item())
    if isinstance(source, ScanList) and (tuples := source.tuples) is not None:
        return Items(tuples.count, tuples.row)
    value = unwrap(source)
    if isinstance(value, Ragged):
        return Items(value.count, value.at, parts=value)
    dynamic = isinstance(source, (ScanList, SymbolicList, Tensor))
    if not dynamic or not isinstance(value, Tensor) or not value.dim() or not isinstance(value.shape[0], SymInt):
        return None
    return Items(value.shape[0], lambda i: value[i])


def _of_progression(source: Progression) -> Items | None:
    if not isinstance(source.size, SymInt):
        return None
    if len(source.runs) != 1:
        raise LoopError("it goes through several ranges one after the other")
    run = source.runs[0]
    if free_unbacked_symbols(run.count):
        torch._check(run.count >= 0)
    return Items(run.count, run.at, (run.first, run.step))


def enumerated(source: Any, start: Any = 0) -> Any:
    """Do as `enumerate`, also of a dynamic number of items."""
    items = items_of(source)
    if items is None:
        return enumerate(source, start)
    items.used()
    return Items(items.count, lambda i: (start + i, items.at(i)), (*items.numbers, start), uses=[])


def zipped(*sources: Any, strict: bool = False) -> Any:
    """Do as `zip`, also of dynamic numbers of items, which are to be equal."""
    found = [items_of(each) for each in sources]
    if all(each is None for each in found):
        return zip(*sources, strict=strict)
    parts = [each.used() if each is not None else _of_list(source) for each, source in zip(found, sources, strict=True)]
    count = parts[0].count
    for each in parts[1:]:
        if strict or not statically_known_true(each.count == count):
            torch._check(each.count == count)
    numbers = tuple(number for each in parts for number in each.numbers)
    return Items(count, lambda i: tuple(each.at(i) for each in parts), numbers, uses=[])


def _of_list(source: Any) -> Items:
    if isinstance(source, Tensor):
        return Items(source.shape[0], lambda i: source[i])
    raise LoopError("it goes through a plain list beside a dynamic number of items")


def turned(source: Any) -> Any:
    """Do as `reversed`, also of a dynamic number of items."""
    if isinstance(source, Progression):
        return reversed(source)
    if isinstance(source, ScanList) and source.is_dynamic:
        return source.turned()
    items = items_of(source)
    if items is None:
        return reversed(source)
    items.used()
    return Items(items.count, lambda i: items.at(items.count - 1 - i), items.numbers, uses=[])
