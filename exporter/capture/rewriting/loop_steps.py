"""A Python loop over a dynamic size as a scan: what the rewritten functions of `loops` call while they are captured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils import _pytree as pytree

INDEX = object()
"""Stands in an index for the loop's variable."""

Index = tuple[Any, ...]
Step = Callable[[Tensor, Any, Sequence[Tensor]], tuple[Any, Sequence[Tensor]]]


class LoopError(Exception):
    """A loop that is no scan after all. The capture goes on without it, as if the loop had not been looked at."""


@dataclass(frozen=True)
class Turns:
    """The turns of `for i in range(...)`, of which there may be a symbolic number."""

    start: Any
    stop: Any
    step: Any

    @staticmethod
    def of(first: Any, stop: Any = None, step: Any = 1) -> Turns:
        """Takes what `range` takes."""
        return Turns(0, first, 1) if stop is None else Turns(first, stop, step)

    @property
    def symbolic(self) -> bool:
        return any(isinstance(each, torch.SymInt) for each in (self.start, self.stop, self.step))

    @property
    def plain(self) -> range:
        return range(self.start, self.stop, self.step)

    @property
    def bounds(self) -> tuple[Any, Any]:
        """The first index and one more than the last, in ascending order."""
        if self.step == 1:
            return self.start, self.stop
        if self.step == -1:
            return self.stop + 1, self.start + 1
        raise LoopError("a loop over a dynamic size in steps of other than one")


def size(value: Any, axis: int) -> Any:
    """The number of elements along an axis, symbolic where it is; of anything that is no tensor, its length."""
    value = held(value)
    if isinstance(value, Ragged):
        return value.count
    return value.shape[axis] if isinstance(value, Tensor) else len(value)


def scanned(step: Step, turns: Turns, carried: Any, rows: Sequence[Tensor]) -> tuple[Any, list[Tensor]]:
    """Runs `step(index, carried, rows of this turn)` for every turn: what is carried at the end, what each turn gave.

    `rows` have the turns as their first axis, and so has what comes back.
    """
    if any(isinstance(each, Ragged) for each in rows):
        return _each(step, carried, rows)
    if not all(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(carried)):
        raise LoopError("a loop over a dynamic size that carries something other than tensors")
    start, stop = turns.bounds
    numbers = torch.arange(start, stop, device=rows[0].device if rows else None)
    if turns.step == -1:
        numbers = numbers.flip(0)
    unused = torch.zeros((), device=numbers.device)  # a scan wants to carry something

    def turn(state: Any, xs: Any) -> Any:
        new, given = step(xs[0], state[1], xs[1])
        return (state[0].clone(), _owned(new)), [each.clone() for each in given]

    (_, final), given = scan(turn, (unused, _owned(carried)), (numbers, list(rows)))
    return final, given


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
    return pytree.tree_map_only(Tensor, lambda x: x.clone(memory_format=torch.contiguous_format), tree)


def rows(value: Any, index: Index, turns: Turns) -> Tensor:
    """What `value[index]` reads, turn after turn, before the rest of the index: the read axis comes first."""
    value = held(value)
    if isinstance(value, Ragged) and index == (INDEX,) and turns.step == 1:
        return value  # type: ignore[return-value]  # all of it, for `scanned`
    if not isinstance(value, Tensor):
        raise LoopError("a loop over a dynamic size that reads something other than tensors")
    axis = _axis(value.dim(), index)
    start, stop = turns.bounds
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

    def __init__(self, stacked: Any) -> None:
        self.stacked = stacked

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        joined = JOINED.get(func)
        if joined is None:
            raise LoopError(f"{func} of a list that a loop over a dynamic size fills")
        return joined(*args, **(kwargs or {}))


class Elements(list[Many]):
    """The elements of a tensor, as a Many: Python may not count them or go through them one by one."""

    def _refused(self, *_: Any) -> Any:
        raise LoopError("a list of as many elements as a dynamic size has")

    __iter__ = __len__ = __getitem__ = __contains__ = __eq__ = __add__ = _refused  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]  # as that of a list


def held(value: Any) -> Any:
    """What a list of as many elements as a dynamic size has was made of; other values as they are."""
    if not isinstance(value, Elements):
        return value
    if list.__len__(value) != 1:
        raise LoopError("a list of as many elements as a dynamic size has, and more")
    return list.__getitem__(value, 0).stacked


class Ragged:
    """The parts of a tensor along an axis, of sizes that only data tells. What it can do is the same for each part."""

    def __init__(self, whole: Tensor, axis: int, count: Any) -> None:
        self.whole, self.axis, self.count = whole, axis % whole.dim(), count

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
    tensors = list.copy(tensors) if isinstance(tensors, list) else tensors
    if any(isinstance(each, Many) and isinstance(each.stacked, Ragged) for each in tensors):
        raise LoopError("a stack of parts of different sizes")
    rank = max(each.stacked.dim() if isinstance(each, Many) else each.dim() + 1 for each in tensors)
    whole = [each.stacked if isinstance(each, Many) else each.unsqueeze(0) for each in tensors]
    return (whole[0] if len(whole) == 1 else torch.cat(whole)).movedim(0, dim % rank)


def cat(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """`torch.cat` of a list with a Many in it."""
    tensors = list.copy(tensors) if isinstance(tensors, list) else tensors
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
