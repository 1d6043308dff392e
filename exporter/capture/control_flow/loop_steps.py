"""A Python loop over a dynamic size as a scan: what the rewritten functions of `loops` call while they are captured."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import EllipsisType
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true
from torch.utils import _pytree as pytree

from exporter.capture.control_flow.filled import Filled
from exporter.capture.control_flow.lifting import Outside, is_rehearsal, lifted, read_by
from exporter.capture.control_flow.merging import DTYPES, LoopError, form_of, opaque
from exporter.capture.control_flow.own_sizes import count_of, filled, joined, known_sizes, longest_of, own_axis, some
from exporter.capture.control_flow.settings import Settings

scan_module: Any = importlib.import_module("torch._higher_order_ops.scan")  # a function of the same name hides it

INDEX = object()
"""Stands in an index for the loop's variable."""

Index = tuple[Any, ...]
Step = Callable[[Tensor, Any, Sequence[Tensor]], tuple[Any, Sequence[Tensor]]]


@dataclass(frozen=True)
class Turns:
    """The turns of `for i in range(...)`, of which there may be a symbolic number."""

    start: Any
    stop: Any
    step: Any

    @staticmethod
    def of(first: Any, stop: Any = None, step: Any = 1) -> Turns:
        """Takes what `range` takes. A number that data tells may be negative, and Python then takes no turn."""
        start, stop = (0, first) if stop is None else (first, stop)
        if free_unbacked_symbols(stop - start):
            ahead = torch.scalar_tensor(stop - start if step > 0 else start - stop, dtype=torch.int64)
            count: Any = ahead.clamp(min=0).item()
            torch._check(count >= 0)
            stop = start + count if step > 0 else start - count
        return Turns(start, stop, step)

    @property
    def symbolic(self) -> bool:
        return any(isinstance(each, torch.SymInt) for each in (self.start, self.stop, self.step))

    @property
    def plain(self) -> range:
        return range(self.start, self.stop, self.step)

    @property
    def backwards(self) -> Turns:
        """The same turns, the last one first."""
        low, high = self.bounds
        return Turns(high - 1, low - 1, -1) if self.step == 1 else Turns(low, high, 1)

    @property
    def bounds(self) -> tuple[Any, Any]:
        """The first index and one more than the last, in ascending order."""
        if self.step == 1:
            return self.start, self.stop
        if self.step == -1:
            return self.stop + 1, self.start + 1
        raise LoopError("a loop over a dynamic size in steps of other than one")

    def numbers(self, device: torch.device | None) -> Tensor:
        """The values of the loop's variable."""
        start, stop = self.bounds
        numbers = torch.arange(start, stop, device=device)
        return numbers.flip(0) if self.step == -1 else numbers


def size(value: Any, axis: int) -> Any:
    """The number of elements along an axis, symbolic where it is; of anything that is no tensor, its length."""
    value = held(value)
    if isinstance(value, Ragged):
        return value.count
    if isinstance(value, Filled):
        return value.count
    return value.shape[axis] if isinstance(value, Tensor) else len(value)


def scanned(step: Step, turns: Turns, carried: Any, rows: Sequence[Tensor]) -> tuple[Any, list[Tensor]]:
    """Runs `step(index, carried, rows of this turn)` for every turn: what is carried at the end, what each turn gave.

    `rows` have the turns as their first axis, and so has what comes back.
    """
    if any(isinstance(each, Ragged) for each in rows):
        return _each(step, carried, rows)
    numbers = turns.numbers(rows[0].device if rows else None)
    xs, known = [numbers, *rows], known_sizes(numbers)
    samples = [_slice(x) for x in xs]
    settings = Settings()
    (((after, _), ends),), _ = read_by([lambda: settings.found(step, samples[0], _owned(carried), samples[1:])], ())
    settings.without_undecided(ends)
    begin = (carried, settings.starts())
    form = form_of(begin, (after, settings.ends(ends)), changing=True)
    held = form.tensors(begin, whole=statically_known_true(numbers.shape[0] > 0))
    init = held or [torch.zeros((), device=numbers.device)]  # a scan wants to carry something
    count = len(init)

    def turn(*tensors: Tensor) -> list[Tensor]:
        state, values = form.value([opaque(each.clone()) for each in tensors[: len(held)]])
        (after, given), values = settings.run(step, values, tensors[count], state, tensors[count + 1 :])
        new = (after, values)
        if not all(isinstance(each, Tensor) for each in given):
            raise LoopError("a loop over a dynamic size that gives other things than tensors")
        return [*(form.tensors(new) or [tensors[0].clone()]), *(each.clone() for each in given)]

    (sample,), _ = read_by([turn], [*init, *samples])
    axes = [own_axis(each, known) for each in sample[count:]]
    if is_rehearsal():
        if some(axes):
            raise LoopError("parts of different sizes in a loop within another")
        last, values = form.value(held)
        settings.set(values)
        return last, [each.expand(numbers.shape[0], *each.shape) for each in sample[count:]]
    counts: Sequence[Tensor] = ()
    if some(axes):
        counts = _run(_counting(turn, axes), init, samples, xs)[0][-len(axes) :]
        turn = _filling(turn, axes, [longest_of(each) for each in counts])
    results, outside = _run(turn, init, samples, xs)
    kept = len(outside.written)
    outside.write(results[:kept])
    last, values = form.value(results[kept : kept + len(held)])
    settings.set(values)
    given = list(results[kept + count :])
    for i, axis in enumerate(axes):
        if axis is not None:
            given[i] = Ragged(joined(given[i], axis, counts[i]), axis, numbers.shape[0], given[i])  # type: ignore[call-overload]
    return last, given


def _run(
    turn: Callable[..., Any], init: Sequence[Tensor], samples: Sequence[Tensor], xs: Sequence[Tensor]
) -> tuple[Sequence[Tensor], Outside]:
    """What a scan gives: what was written to, what is carried at the end, and what the turns gave."""
    _, outside = read_by([turn], [*init, *samples])
    body = _carrying(turn, [*init, *samples], outside)
    return scan_module.scan_op(body, [*outside.starts(), *init], list(xs), outside.values), outside


def _counting(turn: Callable[..., Any], axes: Sequence[int | None]) -> Callable[..., Any]:
    """The turn that tells how much it gives, in the place of that."""

    def run(*tensors: Tensor) -> list[Tensor]:
        results = turn(*tensors)
        given = results[len(results) - len(axes) :]
        counts = [count_of(each, axis) for each, axis in zip(given, axes, strict=True)]
        return [*results[: len(results) - len(axes)], *counts]

    return run


def _filling(turn: Callable[..., Any], axes: Sequence[int | None], longest: Sequence[Tensor]) -> Callable[..., Any]:
    """The turn that gives as much as the longest does."""

    def run(*tensors: Tensor) -> list[Tensor]:
        results = turn(*tensors)
        given = results[len(results) - len(axes) :]
        whole = [
            each if axis is None else filled(each, axis, most)
            for each, axis, most in zip(given, axes, longest, strict=True)
        ]
        return [*results[: len(results) - len(axes)], *whole]

    return run


def _carrying(turn: Callable[..., Any], given: Sequence[Tensor], outside: Outside) -> Callable[..., Any]:
    """The turn with what it writes to at the head of what it carries."""
    whole, kept, count = lifted(turn, given, outside), len(outside.written), len(given)

    def run(*inputs: Any) -> Any:
        written, own, rest = inputs[:kept], inputs[kept : kept + count], inputs[kept + count :]
        results = whole(*own, *written, *rest)
        end = len(results) - kept
        return (*results[end:], *results[:end])

    return run


def _slice(x: Tensor, dim: int = 0) -> Tensor:
    """Like an element along the axis, of which there may be none."""
    return x.new_empty([size for axis, size in enumerate(x.shape) if axis != dim])


def slices_unasked() -> AbstractContextManager[object]:
    """Lets PyTorch trace scans without asking whether there is a turn, also where it traces a branch once more."""
    return mock.patch.object(scan_module, "first_slice_copy", _slice)


def _each(step: Step, carried: Any, rows: Sequence[Any]) -> tuple[Any, list[Any]]:
    """One turn for all parts of a tensor, which have different sizes: it does the same to each, and only that."""
    if carried or not all(isinstance(each, Ragged) for each in rows):
        raise LoopError("a loop over parts of different sizes that does more than to change each of them")
    _, given = step(INDEX, (), rows)  # type: ignore[arg-type]  # a turn that counts fails by it
    if not all(isinstance(each, Ragged) for each in given):
        raise LoopError("a loop over parts of different sizes that gives something other than such parts")
    return (), list(given)


def _owned(tree: Any) -> Any:
    """Copies, since what a scan carries may alias nothing."""
    return pytree.tree_map_only(Tensor, lambda x: opaque(x.clone(memory_format=torch.contiguous_format)), tree)


def rows(value: Any, index: Index, turns: Turns) -> Tensor:
    """What `value[index]` reads, turn after turn, before the rest of the index: the read axis comes first."""
    value = held(value)
    if isinstance(value, Ragged) and index == (INDEX,) and turns.step == 1:
        return value  # type: ignore[return-value]  # all of it, for `scanned`
    if not isinstance(value, Tensor):
        raise LoopError("a loop over a dynamic size that reads something other than tensors")
    axis = _axis(value.dim(), index)
    start, stop = turns.bounds
    if free_unbacked_symbols(stop - start):
        return value.index_select(axis, turns.numbers(value.device)).movedim(axis, 0)
    moved = value.movedim(axis, 0)
    if not _whole(value, axis, turns):
        moved = moved[start:stop]
    return moved if turns.step == 1 else moved.flip(0)


def write(value: Any, index: Index, turns: Turns, given: Tensor) -> None:
    """`value[index] = ...` of all turns at once; `given` has the turns as its first axis."""
    if not isinstance(value, Tensor):
        raise LoopError("a loop over a dynamic size that writes to something other than a tensor")
    start, stop = turns.bounds
    places = tuple(slice(start, stop) if each is INDEX else each for each in index)
    rank = value[places].dim()
    ordered = given if turns.step == 1 else given.flip(0)
    missing = rank - ordered.dim()  # a turn may write what is broadcast
    ordered = ordered[(slice(None), *[None] * missing)]
    value[places] = ordered.movedim(0, _axis(rank, tuple(each for each in index if not isinstance(each, int)), none=1))


def _whole(value: Tensor, axis: int, turns: Turns) -> bool:
    start, stop = turns.bounds
    return isinstance(start, int) and start == 0 and statically_known_true(value.shape[axis] == stop)


def _axis(rank: int, index: Index, none: int = 0) -> int:
    """The axis at which INDEX stands in an index of a tensor of this rank; an ellipsis takes all axes that are left.

    `none` is the number of axes that a None in the index has: 0 before it is applied, 1 afterwards.
    """
    position = next(i for i, each in enumerate(index) if each is INDEX)
    before, after = (
        sum(none if each is None else 1 for each in part) for part in (index[:position], index[position + 1 :])
    )
    if any(isinstance(each, EllipsisType) for each in index[:position]):
        return rank - 1 - after
    return before


class Many:
    """The elements that a loop appended to a list, as one tensor with the turns as its first axis, or as a Ragged.

    It stands in the list as one element. `torch.stack` and `torch.cat` of such a list do what they would do with all
    elements; whatever else is done with it ends the attempt.
    """

    stands_for_many = True

    def __init__(self, stacked: Any) -> None:
        self.stacked = stacked

    @property
    def count(self) -> Any:
        return self.stacked.count if isinstance(self.stacked, Ragged) else self.stacked.shape[0]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        joined = JOINED.get(func)
        if joined is None:
            raise LoopError(f"{func} of a list that a loop over a dynamic size fills")
        return joined(*args, **(kwargs or {}))


def append(target: Any, given: Any, on: Tensor | None = None) -> None:
    """`target.append(...)` of all turns, or of those for which `on` is true.

    Only a list of the rewritten function itself knows what it then holds.
    """
    if not isinstance(target, Filled):
        raise LoopError("a loop over a dynamic size that fills a list which was made elsewhere")
    if on is not None and isinstance(given, Ragged):
        raise LoopError("some of the parts of different sizes")
    list.append(target, Many(given if on is None else given[on]))


def appended(target: Any, on: Any, value: Any) -> None:
    """`target.append(value)` where `on` is true, which may be known by data only."""
    if not isinstance(on, Tensor):
        if on:
            target.append(value)
        return
    row = value if isinstance(value, Tensor) else torch.scalar_tensor(value, dtype=DTYPES.get(type(value)))
    append(target, row.unsqueeze(0), on.reshape(1))


def truth(on: Any) -> Tensor:
    return on.reshape(()) if isinstance(on, Tensor) else torch.scalar_tensor(on, dtype=torch.bool)


class Elements(list[Many]):
    """The elements of a tensor, as a Many: Python may not count them or go through them one by one."""

    def _refused(self, *_: Any) -> Any:
        raise LoopError("a list of as many elements as a dynamic size has")

    __iter__ = __len__ = __getitem__ = __contains__ = __eq__ = __add__ = _refused  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]  # as that of a list


def held(value: Any) -> Any:
    """What a list of as many elements as a dynamic size has was made of; other values as they are."""
    if isinstance(value, Filled) and value.is_dynamic:
        only = list.__getitem__(value, 0) if list.__len__(value) == 1 else None
        return only.stacked if isinstance(only, Many) else value.joined()
    if not isinstance(value, Elements):
        return value
    if list.__len__(value) != 1:
        raise LoopError("a list of as many elements as a dynamic size has, and more")
    return list.__getitem__(value, 0).stacked


class Ragged:
    """The parts of a tensor along an axis, of sizes that only data tells. What it can do is the same for each part."""

    def __init__(self, whole: Tensor, axis: int, count: Any, stacked: Tensor | None = None) -> None:
        self.whole, self.axis, self.count, self.stacked = whole, axis % whole.dim(), count, stacked

    @property
    def shape(self) -> list[Any]:
        return [UNKNOWN if axis == self.axis else each for axis, each in enumerate(self.whole.shape)]

    def reshape(self, *sizes: Any) -> Ragged:
        """`(-1, *rest)`, where each step along the axis is a whole number of new rows."""
        first, *rest = sizes[0] if isinstance(sizes[0], (list, tuple)) else sizes
        if self.axis or type(first) is not int or first != -1 or UNKNOWN in rest:
            raise LoopError("parts of different sizes in another form")
        if not statically_known_true(math.prod(self.whole.shape[1:]) % math.prod(rest) == 0):
            raise LoopError("parts of different sizes in rows of which there may be fractions")
        return Ragged(self.whole.reshape(-1, *rest), 0, self.count)

    view = reshape


UNKNOWN = object()
"""Stands for the size of a part."""


def stack(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """`torch.stack` of a list with a Many in it."""
    tensors = [*list.__iter__(tensors)] if isinstance(tensors, list) else tensors
    whole = [_stacked(each.stacked) if isinstance(each, Many) else each.unsqueeze(0) for each in tensors]
    rank = max(each.dim() for each in whole)
    return (whole[0] if len(whole) == 1 else torch.cat(whole)).movedim(0, dim % rank)


def _stacked(parts: Tensor | Ragged) -> Tensor:
    """Parts that can be stacked are of one size, and none of them is filled up."""
    if not isinstance(parts, Ragged):
        return parts
    if parts.stacked is None:
        raise LoopError("a stack of parts of different sizes")
    return parts.stacked


def cat(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """`torch.cat` of a list with a Many in it."""
    tensors = [*list.__iter__(tensors)] if isinstance(tensors, list) else tensors
    whole = [_merged(each.stacked, dim) if isinstance(each, Many) else each for each in tensors]
    return whole[0] if len(whole) == 1 else torch.cat(whole, dim)


def _merged(stacked: Tensor | Ragged, dim: int) -> Tensor:
    if isinstance(stacked, Ragged):
        if dim % stacked.whole.dim() != stacked.axis:
            raise LoopError("parts of different sizes joined along another axis")
        return stacked.whole
    axis = dim % (stacked.dim() - 1)
    return stacked.movedim(0, axis).flatten(axis, axis + 1)


JOINED = {torch.stack: stack, torch.cat: cat, torch.concat: cat, torch.concatenate: cat}
