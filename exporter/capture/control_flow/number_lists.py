"""Lists of numbers that data tell: what Python's lists do, for as many as a dynamic size has, and for a fixed number.

`NumberList` is what `x.tolist()` gives of a tensor with one axis of a dynamic size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

from fxport.exporter.capture.control_flow.lists import ScanList
from fxport.exporter.capture.control_flow.merging import DTYPES, LoopError, are_of_one_kind
from fxport.exporter.capture.control_flow.stacked_items import StackedItems
from fxport.exporter.capture.control_flow.symbolic_lists import SymbolicList
from fxport.exporter.capture.control_flow.truth import as_tensor, depends_on_data
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.guards.caught import require_uncaught
from fxport.exporter.capture.patches.numbers import may_be_nan, number


class NumberList(SymbolicList):
    """Numbers of one kind, as a tensor of shape [count] of bool, int64 or float64: Python's kinds.

    What Python's list can do and this one cannot raises LoopError.
    """

    def __init__(self, values: Tensor) -> None:
        self.rows = values.to(kind_of(values.dtype))
        super().__init__([StackedItems(self.rows, numbers=True)])

    def __getitem__(self, key: Any) -> Any:  # type: ignore[override]  # numbers, not what holds them
        if not isinstance(key, slice):
            return self.rows[key].item()
        if type(key.step) is int and key.step < 0:
            if (key.start, key.stop, key.step) != (None, None, -1):
                raise LoopError("it takes a part of a list of a dynamic size from its end to its start")
            return NumberList(self.rows.flip(0))
        return NumberList(self.rows[key])

    def __add__(self, other: Any) -> NumberList:  # type: ignore[override]  # as a list does
        return NumberList(torch.cat([self.rows, self._like(other)]))

    def __radd__(self, other: Any) -> NumberList:
        return NumberList(torch.cat([self._like(other), self.rows]))

    def copy(self) -> NumberList:
        return NumberList(self.rows)

    def count(self, value: Any) -> Any:
        return self.equal_to(value).sum().item()

    def index(self, value: Any, *bounds: Any) -> Any:
        if bounds:
            raise LoopError("it looks for a number in a part of a list of a dynamic size")
        require_uncaught(ValueError)
        return self.equal_to(value).int().argmax(0).item()

    def equal_to(self, value: Any) -> Tensor:
        """Return which of the numbers are equal to a number or to a tensor of shape []."""
        if not isinstance(value, (Tensor, *DTYPES)):
            return torch.zeros_like(self.rows, dtype=torch.bool)
        value = as_tensor(value)
        mixed = value.is_floating_point() or self.rows.is_floating_point()
        return self.rows.double() == value.double() if mixed else self.rows.long() == value.long()

    def _like(self, other: Any) -> Tensor:
        """Return the numbers of another list. Raises LoopError where they are not all of this kind."""
        values = rows_of(other)
        if values is None and type(other) is list:
            kinds = {DTYPES.get(type(each)) for each in other}
            if kinds <= {self.rows.dtype}:
                values = torch.stack([as_tensor(each) for each in other]) if other else self.rows[:0]
        if values is None or values.dtype is not self.rows.dtype:
            raise LoopError("it joins a list of a dynamic size with one of other things")
        return values


def kind_of(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which a tensor's numbers are those that Python has."""
    if dtype is torch.bool:
        return dtype
    return torch.float64 if dtype.is_floating_point else torch.int64


def rows_of(values: Any) -> Tensor | None:
    """Return the numbers of a list of as many as a dynamic size has; None for other lists, and other things."""
    if isinstance(values, NumberList):
        return values.rows
    if not isinstance(values, ScanList) or not values.is_dynamic:
        return None
    rows = [*map(_rows_of_entry, values.entries())]
    same = (
        all(isinstance(each, Tensor) for each in rows) and len({each.dtype for each in rows if each is not None}) == 1
    )
    return (rows[0] if len(rows) == 1 else torch.cat(rows)) if same else None  # type: ignore[arg-type]  # as just seen


def _rows_of_entry(entry: Any) -> Tensor | None:
    if isinstance(entry, StackedItems):
        return entry.stacked if entry.numbers else None
    return as_tensor(entry).reshape(1) if are_of_one_kind([entry]) else None


EMPTY = "data may leave its list empty, of which PyTorch makes a tensor of floats"


def tensor_of(values: Any, dtype: torch.dtype | None = None, device: Any = None) -> Tensor | None:
    """Return `torch.tensor(values)` of such a list, or one of tensors without axes; None for others."""
    rows = rows_of(values)
    own = rows.dtype if rows is not None else None
    if rows is not None and rows.is_floating_point():
        own = torch.get_default_dtype()
    if rows is None and isinstance(values, ScanList) and values.is_dynamic:
        rows = values.joined()
        own = rows.dtype
    if rows is None or own is None or rows.dim() != 1:
        return None
    if dtype is None and own is not torch.get_default_dtype() and not _is_some(rows):
        raise RefusedError(EMPTY, cure="Give the dtype of the tensor.", by_values=True)
    return rows.to(device=device, dtype=dtype or own, copy=True)


def total_of_numbers(rows: Tensor, start: Any) -> Any:
    """Return `sum` of numbers. Raises LoopError where floats may be none, of which the sum is a whole number."""
    if rows.is_floating_point() and not _is_some(rows):
        raise LoopError("a sum of what may be nothing")
    return rows.sum(0).item() + start


def product_of(rows: Tensor, start: Any) -> Any:
    """Return `math.prod` of numbers. Raises LoopError where floats may be none: that of none is a whole number."""
    if rows.is_floating_point() and not _is_some(rows):
        raise LoopError("a product of what may be nothing")
    return rows.prod(0).item() * start


def extreme_of(name: str, rows: Tensor, default: Sequence[Any]) -> Any:
    """Return `max` or `min` of numbers."""
    return extreme_row(name, rows, default).item()


def extreme_row(name: str, rows: Tensor, default: Sequence[Any]) -> Tensor:
    """Return `max` or `min` of a vector: the first of several that are equal, and NaN only where it is the first."""
    if not _is_some(rows):
        if default:
            raise LoopError("it takes a default where a list of a dynamic size is empty")
        require_uncaught(ValueError)
    if rows.dtype is torch.bool:
        raise LoopError(f"it takes the {name} of as many truth values as a dynamic size has")
    if not rows.is_floating_point():
        return getattr(rows, f"a{name}")(0)
    least = float("-inf") if name == "max" else float("inf")
    place = getattr(rows.where(~rows.isnan(), least), f"arg{name}")(0)
    return torch.where(rows[0].isnan(), rows[0], rows[place])


def _is_some(rows: Tensor) -> bool:
    return statically_known_true(rows.shape[0] > 0)


def ordered(rows: Tensor, reverse: bool) -> Tensor:
    """Return the numbers sorted as Python does: equal ones, such as both zeros, keep their order."""
    if rows.dtype is torch.bool:
        return rows.long().sort(stable=True, descending=reverse).values.bool()
    return rows.sort(stable=True, descending=reverse).values


# Of a fixed number of numbers --------------------------------------------------------------------------------------


def is_equal(value: Any, each: Any) -> Any:
    """Return whether a list takes one of its elements for a value: the same object, or an equal one.

    Raises LoopError for a float from data that may be NaN, and is compared with itself.
    """
    if value is each:
        if may_be_nan(value):
            raise LoopError("it looks for a float from data in a list that holds it, and it may be NaN")
        return True
    return value == each


def has_data(values: Any) -> bool:
    """Return whether an element of a plain list or tuple is a number that only data tells."""
    if type(values) not in (list, tuple, torch.Size, ScanList) or (isinstance(values, ScanList) and values.is_dynamic):
        return False
    return any(depends_on_data(each) and not isinstance(each, Tensor) for each in values)


def _counted(values: Sequence[Any], value: Any) -> Any:
    return reduce(lambda count, each: count + number(is_equal(value, each)), values, 0)


def _found(values: Sequence[Any], value: Any, *bounds: Any) -> Any:
    if bounds:
        raise LoopError("it looks for a number from data in a part of a list")
    require_uncaught(ValueError)
    truths = [torch.scalar_tensor(is_equal(value, each), dtype=torch.bool) for each in values]
    return torch.stack(truths).int().argmax(0).item()


SEARCHES: Mapping[str, Callable[..., Any]] = {"count": _counted, "index": _found}
"""Methods of lists and tuples that compare a value with their elements."""


def searching(values: Any, name: str) -> Callable[..., Any] | None:
    """Return such a method of a list for values that only data tell; None where Python's own will do."""
    plain = getattr(values, name)

    def made(value: Any, *bounds: Any) -> Any:
        open_ = depends_on_data(value) or has_data(values)
        numbers = all(isinstance(each, tuple(DTYPES)) for each in (value, *values))
        return SEARCHES[name](values, value, *bounds) if open_ and numbers and len(values) else plain(value, *bounds)

    return made if name in SEARCHES else None
