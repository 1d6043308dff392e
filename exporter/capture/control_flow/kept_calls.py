"""Python's own functions that make a plain number or a list of a dynamic size, in forms that keep it dynamic.

What the rewritten functions of `loops` call while they are captured.
"""

from __future__ import annotations

import builtins
import functools
import gc
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from types import CellType
from typing import Any

import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

from fxport.exporter.capture.annotations import SORTED, noted
from fxport.exporter.capture.control_flow.applied import added, listed, mapped, reduced
from fxport.exporter.capture.control_flow.branches import chosen, refused
from fxport.exporter.capture.control_flow.entries import total_of
from fxport.exporter.capture.control_flow.items import Items, enumerated, turned, zipped
from fxport.exporter.capture.control_flow.key_methods import of_keys
from fxport.exporter.capture.control_flow.lists import ScanList
from fxport.exporter.capture.control_flow.math_calls import OF_NUMBERS
from fxport.exporter.capture.control_flow.merged import watch_copies
from fxport.exporter.capture.control_flow.merging import LoopError, are_of_one_kind, merged_truth
from fxport.exporter.capture.control_flow.number_lists import (
    NumberList,
    extreme_of,
    extreme_row,
    ordered,
    rows_of,
    searching,
    total_of_numbers,
)
from fxport.exporter.capture.control_flow.operators import and_, not_, or_
from fxport.exporter.capture.control_flow.ragged import Ragged
from fxport.exporter.capture.control_flow.stacked_items import StackedItems
from fxport.exporter.capture.control_flow.symbolic_lists import Parts, Rows, SymbolicList, unwrap
from fxport.exporter.capture.control_flow.truth import as_tensor, depends_on_data, predicate
from fxport.exporter.capture.guards.presence import SOME
from fxport.exporter.capture.knowledge import note, version
from fxport.exporter.capture.patches.arithmetic import real_of
from fxport.exporter.capture.patches.extremes import watch_turned
from fxport.exporter.capture.sizes.progressions import Progression, progression
from fxport.exporter.capture.snapshot import Snapshot

SYMBOLIC = (SymInt, SymFloat, SymBool)


def kept(function: Any) -> Any:
    """Return the function that takes dynamic sizes as well, or the function itself where there is none."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, Tensor):
        method = METHODS.get(function.__name__)
        return function if method is None else functools.partial(method, owner)
    if isinstance(owner, (dict, set)):
        return of_keys(owner, function.__name__) or function
    if type(owner) in (list, tuple):
        return searching(owner, function.__name__) or function
    try:
        return KEPT.get(real_of(function), function)
    except TypeError:  # what cannot be a key is in no table
        return function


def _number(value: Any) -> Any:
    """Return the content of a tensor of one element; other values as they are."""
    return value.item() if isinstance(value, Tensor) else value


def _int(*args: Any, **kwargs: Any) -> Any:
    value = _number(args[0]) if len(args) == 1 else None
    if isinstance(value, SymBool):
        return torch.sym_ite(value, 1, 0)
    return torch.sym_int(value) if isinstance(value, (SymInt, SymFloat)) else int(*args, **kwargs)


def _float(*args: Any) -> Any:
    value = _number(args[0]) if len(args) == 1 else None
    if isinstance(value, SymBool):
        value = torch.sym_ite(value, 1, 0)
    return torch.sym_float(value) if isinstance(value, (SymInt, SymFloat)) else float(*args)


def _len(value: Any) -> Any:
    if isinstance(value, Progression):
        return value.size
    if isinstance(value, ScanList):
        return value.size
    value = unwrap(value)
    if isinstance(value, Ragged):
        return value.count
    return value.shape[0] if isinstance(value, Tensor) and value.dim() else len(value)


def _sum(values: Any, start: Any = 0) -> Any:
    """Add up a list, also one that a loop over a dynamic size filled and that has an element."""
    if (numbers := rows_of(values)) is not None:
        return total_of_numbers(numbers, start)
    if isinstance(values, (Tensor, Items, Rows)):
        return added(values, start)
    if not isinstance(values, ScanList) or not values.is_dynamic:
        return sum(values, start)
    if values.is_bounded:
        return total_of([*values.entries()], start)
    rows = values.joined()
    if not statically_known_true(rows.shape[0] > 0):
        raise LoopError("a sum of what may be nothing")
    return start + rows.sum(0, dtype=None if rows.dtype is torch.bool else rows.dtype)


def _bool(value: Any) -> Any:
    return merged_truth(predicate(value)) if depends_on_data(value) else bool(value)


def _asserted(condition: Any, message: str) -> None:
    """Do as `torch._assert`, which is left out where data decides on it, as `assert` is."""
    if refused(not_(condition), lambda: AssertionError):
        raise AssertionError(message)


def _truths(plain: Callable[..., Any], of_rows: Callable[[Tensor], Tensor], step: Callable[..., Any]) -> Any:
    """`any` or `all`, which Python ends at the first that decides."""

    def made(values: Any) -> Any:
        if (numbers := rows_of(values)) is not None:
            return of_rows(numbers != 0).item()
        if isinstance(values, ScanList) and values.is_dynamic:
            truth = of_rows(values.joined().reshape(-1).bool())
            note(truth, SOME, None)  # a list of truth values is no mask, which is presumed to have an effect
            return truth
        return functools.reduce(lambda one, other: step(one, lambda: other), _tests_of(values), plain(()))

    return made


def _tests_of(values: Any) -> list[Any]:
    """Return the truth of all values, also of those that Python would not come to where data decides before them.

    Raises:
        LoopError: To compute one of these changes something.
    """
    tests: list[Any] = []
    state: Effectless | None = None
    for each in values:
        tests.append(_bool(each))
        if state is None and isinstance(values, Iterator) and depends_on_data(tests[-1]):
            state = Effectless.of({type(value).__name__: value for value in _read_by(values)})
    if state is not None:
        require_unchanged(state)
    return tests


def _read_by(values: Iterator[Any]) -> Iterator[Any]:
    """Yield what an iterator computes its values of, but for those that it goes through."""
    for each in gc.get_referents(values):
        if isinstance(each, CellType):
            yield from () if each == CellType() else (each.cell_contents,)
        elif not isinstance(each, Iterator):
            yield each


@dataclass(frozen=True, slots=True)
class Effectless:
    """State that an expression can reach, and how often each tensor in it had been written to."""

    snapshot: Snapshot
    tensors: Mapping[str, tuple[Tensor, int | None]]

    @classmethod
    def of(cls, roots: Mapping[str, Any]) -> Effectless:
        """Return the state as it is now."""
        snapshot = Snapshot.of(roots)
        named = [*roots.items(), *((holder.name_of(key), value) for holder, key, value in snapshot.values())]
        return cls(snapshot, {name: (each, version(each)) for name, each in named if isinstance(each, Tensor)})

    def changed(self) -> Iterator[str]:
        """Yield the names of what is not as it was."""
        yield from (each.name for each in self.snapshot.changes())
        yield from (name for name, (tensor, before) in self.tensors.items() if version(tensor) != before)


def state_read_by(function: Callable[..., Any]) -> Effectless:
    """Return what an expression can reach, as it is before it is computed for several elements."""
    return Effectless.of({"": function})


def require_unchanged(state: Effectless, own: str = " ") -> None:
    """Raise LoopError where a state has changed, but for variables whose names begin with `own`."""
    changed = next((name for name in state.changed() if not name.startswith(own)), None)
    if changed is not None:
        raise LoopError(f"it changes '{changed}' for each element, and only the data tells to how many it comes")


def _sorted(values: Any, *, key: Callable[[Any], Any] | None = None, reverse: Any = False) -> Any:
    """Sort a list of tensors, also by values of the data; equal ones keep their order, and NaN comes last."""
    numbers = rows_of(values) if key is None and type(reverse) is bool else None
    if numbers is not None:
        with noted(SORTED, True) if numbers.is_floating_point() else nullcontext():
            return NumberList(ordered(numbers, reverse))
    listed = [*values]
    keys = listed if key is None else [key(each) for each in listed]
    plain = type(reverse) is not bool or not any(map(depends_on_data, keys))
    of_tensors, of_numbers = all(isinstance(each, Tensor) for each in listed), are_of_one_kind(listed)
    of_tuples = key is not None and _are_alike(listed)
    sortable = of_tensors or of_numbers or of_tuples
    if plain or not (are_of_one_kind(keys) or all(map(depends_on_data, keys))) or not sortable:
        return sorted(listed, key=key, reverse=reverse)
    stacked = torch.stack([as_tensor(each).reshape(()) for each in keys])
    with noted(SORTED, True) if stacked.is_floating_point() else nullcontext():
        order = stacked.argsort(stable=True, descending=reverse)
    if of_tuples:
        return _tuples_in(order, listed)
    if of_numbers:
        return [each.item() for each in torch.stack([*map(as_tensor, listed)])[order].unbind(0)]
    found = [*torch.stack(listed)[order].unbind(0)]
    for each in found:
        watch_copies(each, listed)
    return found


def _are_alike(values: Sequence[Any]) -> bool:
    """Return whether all are tuples or lists of tensors, as many in each, of the same sizes and types."""
    if not all(type(each) in (tuple, list) and each for each in values):
        return False
    forms = [[(part.shape, part.dtype) if isinstance(part, Tensor) else None for part in each] for each in values]
    return None not in forms[0] and all(form == forms[0] for form in forms) and len({*map(type, values)}) == 1


def _tuples_in(order: Tensor, values: Sequence[Any]) -> list[Any]:
    """Return tuples of tensors in this order."""
    columns = [[*column] for column in zip(*values, strict=True)]
    ordered = [[*torch.stack(column)[order].unbind(0)] for column in columns]
    for column, found in zip(columns, ordered, strict=True):
        for each in found:
            watch_copies(each, column)
    return [type(values[0])(parts) for parts in zip(*ordered, strict=True)]


def _extreme(name: str, is_better: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """`max` or `min`, which take the first of several that are equal; of values of the data, one comparison each."""

    def made(*values: Any, key: Callable[[Any], Any] | None = None, **rest: Any) -> Any:
        given: Any = values[0] if len(values) == 1 else values
        if key is None and (numbers := rows_of(given)) is not None:
            return extreme_of(name, numbers, [*rest.values()])
        is_dynamic = (isinstance(given, ScanList) and given.is_dynamic) or Rows.of(given) is not None
        rows = unwrap(given) if key is None and is_dynamic else None
        if isinstance(rows, Tensor) and rows.dim() == 1:
            best = extreme_row(name, rows, [*rest.values()])
            watch_turned(best, rows)
            return best
        if isinstance(given, ScanList) and given.is_dynamic:
            raise LoopError("it takes the largest or smallest of as many values as a dynamic size has")
        listed = given if isinstance(given, Tensor) else [*given]
        if listed is not given or not isinstance(given, Tensor):
            rest = {} if len(values) == 1 and listed else rest  # a default is of no use
        keys = listed if key is None else [key(each) for each in listed]
        is_open = depends_on_data if key is not None else lambda each: isinstance(each, Tensor)
        if rest or isinstance(listed, Tensor) or not any(map(is_open, keys)):
            return getattr(builtins, name)(listed, **rest, **({} if key is None else {"key": key}))
        best, most = listed[0], keys[0]
        for value, other in zip(listed[1:], keys[1:], strict=True):
            pairs = (value, other), (best, most)
            best, most = chosen(is_better(other, most), *(functools.partial(tuple, pair) for pair in pairs))
        return best

    return made


def _round(value: Any, digits: Any = None) -> Any:
    return value if isinstance(value, SymInt) and digits is None else round(value, digits)


def _elements(kind: Callable[..., Any]) -> Callable[..., Any]:
    def made(*args: Any) -> Any:
        rows = args[0] if len(args) == 1 else None
        if isinstance(rows, Items):
            return listed(rows)
        if isinstance(rows, Progression):
            return rows
        if isinstance(rows, NumberList):
            return rows.copy()
        if isinstance(rows, ScanList) and rows.is_dynamic:
            return ScanList(rows.entries())
        return kind(*args) if (found := Rows.of(rows)) is None else found

    return made


def _unbound(x: Tensor, dim: int = 0) -> Any:
    return Rows(x.movedim(dim, 0)) if isinstance(x.shape[dim], SymInt) else x.unbind(dim)


def _listed(x: Tensor) -> Any:
    if not x.dim() or not isinstance(x.shape[0], SymInt):
        return x.tolist()
    return NumberList(x) if x.dim() == 1 else SymbolicList([StackedItems(x)])


def _split(tensor: Tensor, split_size: Any = None, dim: int = 0, **named: Any) -> Any:
    """Split a tensor, also into a dynamic number of parts."""
    x, split_size = tensor, named.get("split_size_or_sections", split_size)
    if isinstance(split_size, SymbolicList):
        return SymbolicList([StackedItems(Ragged(x, dim, unwrap(split_size)))])
    plain, size = functools.partial(x.split, split_size, dim), x.shape[dim]
    if not isinstance(size, SymInt) or type(split_size) is not int:
        return plain()
    if split_size == 1:
        return Rows(x.movedim(dim, 0).unsqueeze(dim % x.dim() + 1))
    count = (size + split_size - 1) // split_size
    sizes = (size - split_size * torch.arange(count)).clamp(max=split_size)
    return Parts(StackedItems(Ragged(x, dim, sizes)), plain, x, dim, split_size)


def _padded(sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right") -> Any:
    """Pad tensors to the longest, also the parts of one, of which data tell how many there are."""
    given: Any = sequences
    if not (isinstance(given, SymbolicList) or (isinstance(given, ScanList) and given.is_dynamic)):
        return torch.nn.utils.rnn.pad_sequence(given, batch_first, padding_value, padding_side)
    parts = unwrap(sequences)
    if not isinstance(parts, Ragged) or parts.axis or padding_side != "right":
        raise LoopError("it pads as many tensors as a dynamic size has, which are not the parts of one")
    whole = parts.padded(padding_value)
    return whole if batch_first else whole.transpose(0, 1)


def _typed(kind: Any, dtype: torch.dtype) -> Callable[..., Any]:
    """`torch.LongTensor([n])`."""

    def made(*args: Any) -> Any:
        values = len(args) == 1 and isinstance(args[0], (list, tuple, Progression))
        return torch.tensor(*args, dtype=dtype) if values else kind(*args)

    return made


KEPT: Mapping[Any, Callable[..., Any]] = {
    int: _int,
    float: _float,
    len: _len,
    range: progression,
    enumerate: enumerated,
    map: mapped,
    functools.reduce: reduced,
    zip: zipped,
    reversed: turned,
    round: _round,
    real_of(max): _extreme("max", operator.gt),
    real_of(min): _extreme("min", operator.lt),
    sum: _sum,
    bool: _bool,
    torch._assert: _asserted,
    any: _truths(any, torch.any, or_),
    all: _truths(all, torch.all, and_),
    sorted: _sorted,
    list: _elements(list),
    tuple: _elements(tuple),
    torch.unbind: _unbound,
    torch.split: _split,
    torch.nn.utils.rnn.pad_sequence: _padded,
    **OF_NUMBERS,
    torch.LongTensor: _typed(torch.LongTensor, torch.int64),
    torch.IntTensor: _typed(torch.IntTensor, torch.int32),
    torch.FloatTensor: _typed(torch.FloatTensor, torch.float32),
    torch.Tensor: _typed(torch.Tensor, torch.float32),
}
"""The functions that take dynamic sizes, by those that the model calls; `real_of`, as this may be read in a trace."""

METHODS: Mapping[str, Callable[..., Any]] = {"unbind": _unbound, "tolist": _listed, "split": _split}
"""The same for methods of tensors, by their names."""
