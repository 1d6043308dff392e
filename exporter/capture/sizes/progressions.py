"""Lists of the whole numbers of a range over a dynamic size: `list(range(n))[::-1]` stays as long as the size is.

PyTorch has no list of a symbolic length. What Python does with such lists follows from their first elements, their
steps and how many there are; a tensor made of one is an `arange`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import SymInt, Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true


@dataclass(frozen=True, slots=True)
class Run:
    """The numbers first, first + step, ... of which there are `count`."""

    first: Any
    step: Any
    count: Any

    def at(self, place: Any) -> Any:
        return self.first + place * self.step if type(place) is not int or place else self.first

    def part(self, start: Any, stop: Any, step: int) -> Run:
        """Return every `step`-th of the numbers from position `start` to before `stop`, which are within the run."""
        return Run(self.at(start), self.step * step, _not_negative((stop - start + step - 1) // step))


@dataclass(frozen=True, slots=True)
class Progression(Sequence[Any]):
    """A list of runs of whole numbers. What needs its length as a plain number makes a constant of it."""

    runs: tuple[Run, ...]

    @staticmethod
    def of(*args: Any) -> Progression:
        """Return what `range` of these numbers gives."""
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        ahead, stride = (stop - start, step) if step > 0 else (start - stop, -step)
        single = _is_known(ahead > 0) and _is_known(ahead <= stride)  # `range(0, n, n)`, which SymPy does not divide
        return Progression((Run(start, step, 1 if single else _not_negative((ahead + stride - 1) // stride)),))

    @property
    def size(self) -> Any:
        """Return how many numbers there are, symbolic where that is."""
        return sum(run.count for run in self.runs)

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> Tensor:
        parts = [torch.arange(run.count, device=device) * run.step + run.first for run in self.runs]
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        return whole if dtype is None else whole.to(dtype)

    def __len__(self) -> int:
        return operator.index(self.size)

    def __bool__(self) -> bool:
        return bool(self.size > 0)

    def __iter__(self) -> Iterator[Any]:
        return (run.at(place) for run in self.runs for place in range(run.count))

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, slice):
            return self._at(key)
        if key.step is not None and key.step < 0:
            if key.start is not None or key.stop is not None:
                return list(self)[key]
            return self.__reversed__()[:: -key.step]
        return self._part(key.start, key.stop, 1 if key.step is None else key.step)

    def __reversed__(self) -> Progression:  # type: ignore[override]  # whoever iterates does not mind
        return Progression(tuple(Run(run.at(run.count - 1), -run.step, run.count) for run in reversed(self.runs)))

    def __add__(self, other: Sequence[Any]) -> Progression:
        return Progression((*self.runs, *_runs(other)))

    def __radd__(self, other: Sequence[Any]) -> Progression:
        return Progression((*_runs(other), *self.runs))

    def _at(self, key: Any) -> Any:
        place = key if key >= 0 else self.size + key
        for run in self.runs:
            if place < run.count:
                return run.at(place)
            place = place - run.count
        raise IndexError("list index out of range")

    def _part(self, start: Any, stop: Any, step: int) -> Progression:
        count = self.size
        start, stop = _bound(start, 0, count), _bound(stop, count, count)
        found, before = [], 0
        for run in self.runs:
            ahead = _not_negative(before - start)
            first = start + (ahead + step - 1) // step * step - before  # the first place of these in this run
            found.append(run.part(first, _smaller(stop - before, run.count), step))
            before = before + run.count
        return Progression(tuple(run for run in found if not _is_known(run.count == 0)))


def progression(*args: Any) -> Any:
    """Return `range` of these numbers, as a Progression where one is symbolic; tensors may stand for numbers."""
    args = tuple(_number_in(each) for each in args)
    return Progression.of(*args) if any(isinstance(each, SymInt) for each in args) else range(*args)


def _number_in(value: Any) -> Any:
    """Return the whole number in a tensor, as `range` asks for it by `__index__`."""
    if not isinstance(value, Tensor) or value.is_floating_point() or value.is_complex() or value.numel() != 1:
        return value
    return value.long().item()


def _runs(values: Any) -> tuple[Run, ...]:
    return values.runs if isinstance(values, Progression) else tuple(Run(each, 1, 1) for each in values)


def _bound(given: Any, default: Any, count: Any) -> Any:
    """Return the position that the bound of a slice stands for."""
    if given is None:
        return default
    return _smaller(given, count) if given >= 0 else _not_negative(count + given)


def _smaller(one: Any, two: Any) -> Any:
    if _is_known(one <= two):
        return one
    return two if _is_known(two <= one) else torch.sym_min(one, two)


def _not_negative(number: Any) -> Any:
    if _is_known(number >= 0):
        return number
    return 0 if _is_known(number <= 0) else torch.sym_max(number, 0)


def _is_known(condition: Any) -> bool:
    return statically_known_true(condition)
