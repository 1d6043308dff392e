"""Functions of Python that go through values one by one, of as many as a dynamic size has: each is a loop.

map(f, x)                                x[i] → f(x[i]), as the items of a loop
list(map(f, x)), [first, *x]             a list that a loop fills
functools.reduce(f, x), sum(x)           total = f(total, x[i]) in each turn
first, *others = x                       first, others = x[0], the rows of x[1:]
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

from fxport.exporter.capture.control_flow.items import Items, items_of, zipped
from fxport.exporter.capture.control_flow.lists import ScanList
from fxport.exporter.capture.control_flow.merging import LoopError
from fxport.exporter.capture.control_flow.scans import for_each
from fxport.exporter.capture.control_flow.stacked_items import StackedItems, unreadable
from fxport.exporter.capture.control_flow.symbolic_lists import Rows, SymbolicList


def mapped(function: Callable[..., Any], *sources: Any) -> Any:
    """Do as `map`, also of dynamic numbers of items."""
    if all(items_of(each) is None for each in sources):
        return map(function, *sources)
    items = zipped(*sources)
    return Items(items.count, lambda i: function(*items.at(i)), items.numbers, uses=[])


def reduced(function: Callable[[Any, Any], Any], source: Any, *initial: Any) -> Any:
    """Do as `functools.reduce`, also of a dynamic number of items, of which there is one if it has no initial value."""
    items = items_of(source)
    if items is None:
        return functools.reduce(function, source, *initial)
    if initial:
        (total,) = initial
    else:
        if not statically_known_true(items.count > 0):
            raise LoopError("a total of what may be nothing")
        total, items = items.used().at(0), items.behind_first()

    def turn(item: Any) -> None:
        nonlocal total
        total = function(total, item)

    for_each(items, turn)
    return total


def added(source: Any, start: Any = 0) -> Any:
    """Do as `sum` of the rows of a tensor, or of other items of which there is a dynamic number."""
    return reduced(operator.add, source, start)


def listed(source: Any) -> ScanList:
    """Return a list of as many items as a dynamic size has."""
    made = ScanList()

    def turn(item: Any) -> None:
        made.append(item)

    for_each(source, turn)
    return made


def display(*parts: tuple[bool, Callable[[], Any]]) -> Any:
    """Return `[first, *others]`: parts, each with whether it is several elements; one is gone through before the next.

    Args:
        parts: Whether it is several, and what computes it.
    """
    made = ScanList()
    for several, part in parts:
        value = part()
        if not several:
            list.append(made, value)
        elif isinstance(value, ScanList):
            list.extend(made, value.entries())
        elif not _is_dynamic(value):
            list.extend(made, value)
        elif isinstance(value, SymbolicList):
            list.extend(made, list.__iter__(value))
        else:
            list.extend(made, [StackedItems(value)] if isinstance(value, Tensor) else listed(value).entries())
    return made if made.is_dynamic else [*list.__iter__(made)]


def unpacked(source: Any, before: int, after: int) -> Any:
    """Return the values that `first, *others, last = source` binds, also of a dynamic number of rows.

    Raises:
        ValueError: There are fewer than the names need.
    """
    if (rows := Rows.of(source)) is not None:
        return rows.unpacked(before, after)
    values = [*source]
    if (rest := len(values) - before - after) < 0:
        raise ValueError(f"not enough values to unpack (expected at least {before + after}, got {len(values)})")
    return [*values[:before], values[before : before + rest], *values[before + rest :]]


def transposed(function: Any, values: Any) -> Any:
    """Return `zip(*values)`, also of a list of as many tuples as a dynamic size has, and of several such lists."""
    if function is not zip:
        return function(*values)
    if not isinstance(values, ScanList) or not values.is_dynamic:
        return zipped(*values)
    tuples = values.tuples
    if tuples is None or not all(each.is_leaf() for each in tuples.spec.children()):
        raise unreadable(values.entries())
    return iter([ScanList([each]) for each in tuples.columns])


def _is_dynamic(value: Any) -> bool:
    return items_of(value) is not None or (isinstance(value, ScanList) and value.is_dynamic)
