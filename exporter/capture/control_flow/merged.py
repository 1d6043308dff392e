"""Restrictions and corrections for later uses of the merged results of branches and loops.

Truth values of Python are tensors of booleans in the graph, but count as 0 and 1 in arithmetic. And tensors that may be
one tensor in eager PyTorch are two in the graph. After `y = x if test else z`, a write to `y` is one to `x` or to `z`,
by the data; the graph has a third tensor. So a write to one of the two is followed by one to the other, where the test
holds. What a loop carries, `best = h`, may not be written to any more: no single value tells which of them are one.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any
from unittest import mock

import torch
from torch import SymInt, Tensor
from torch.fx.experimental.proxy_tensor import PreDispatchTorchFunctionMode, get_proxy_mode, get_proxy_slot
from torch.utils import _pytree as pytree

from fxport.exporter.capture.control_flow.alternatives import alternatives_asked, note_alternatives
from fxport.exporter.capture.control_flow.lifting import Outside, at_end, is_rehearsal, rehearsed, standing_for
from fxport.exporter.capture.control_flow.merging import MIXED, LoopError
from fxport.exporter.capture.control_flow.views import Step, ViewsNoted, again, are_repeatable, origin_of, storage_of
from fxport.exporter.capture.function_mode import READS, FunctionMode, Part
from fxport.exporter.capture.guards.askers import Line
from fxport.exporter.capture.knowledge import version
from fxport.exporter.capture.patches.mixed_kinds import MERGED_TRUTH

WRITTEN = "it writes to a tensor that a branch or a loop has made another name of"


COPIES = "_fxport_copies"
"""The attribute of a result that was rehearsed: what it would be another name of, were it no copy."""

Test = tuple[Tensor, bool]
"""The test of a branch, and the truth value for which the branch is taken."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One of two tensors, as long as somebody has it or a view of it: a view holds what it was made of."""

    tensor: weakref.ref[Tensor]

    @property
    def place(self) -> int | None:
        """The id of its memory; None if the tensor was freed."""
        tensor = self.tensor()
        return None if tensor is None else storage_of(tensor)

    def is_same(self, other: _Side) -> bool:
        return self.tensor() is not None and self.tensor() is other.tensor()


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tensors that may share memory in eager PyTorch, and do not in the graph.

    Attributes:
        part: The one that may be a view of the other, or the other itself.
        whole: The other.
        steps: What leads from `whole` to the view.
        when: The tests for which it is one, each with its answer; None where no test tells.
        branches: The lines of the branches that have made them two.
    """

    part: _Side
    whole: _Side
    steps: tuple[Step, ...]
    when: tuple[Test, ...] | None
    branches: frozenset[Line]

    @property
    def is_alive(self) -> bool:
        return self.part.tensor() is not None and self.whole.tensor() is not None

    def is_within(self, other: Pair) -> bool:
        """Return whether another pair says the same of the same tensors, or refuses what this one follows."""
        same_sides = self.part.is_same(other.part) and self.whole.is_same(other.whole)
        return same_sides and (other.when is None or (other.when is self.when and other.steps == self.steps))

    def follow(self, written: set[int]) -> None:
        """Write to one of them what was written to the other.

        Raises:
            LoopError: It cannot be told what that is; or a body of control flow writes, which has tensors of its own.
        """
        by_part, by_whole = self.part.place in written, self.whole.place in written
        if not (by_part or by_whole):
            return
        part, whole = self.part.tensor(), self.whole.tensor()
        if self.when is None or part is None or whole is None or (by_part and by_whole):
            raise LoopError(WRITTEN, self.branches)
        if is_rehearsal():  # what the body leaves is written where the operator stands, and followed there
            at_end(partial(self.require_unread, whole if by_part else part))
            return
        numbers = [each for step in self.steps for each in step.operands if isinstance(each, SymInt)]
        if not all(map(_is_traced, (part, whole, *numbers, *(test for test, _ in self.when)))):
            raise LoopError(WRITTEN, self.branches)
        holds = reduce(torch.logical_and, [test if answer else test.logical_not() for test, answer in self.when])
        view = again(whole, self.steps)
        if view.shape != part.shape:  # one of them has got other axes since
            raise LoopError(WRITTEN, self.branches)
        source, target = (part, view) if by_part else (view, part)
        target.copy_(torch.where(holds, source, target))

    def require_unread(self, other: Tensor, outside: Outside) -> None:
        """Raise LoopError if a body that writes to one of them uses the other."""
        if storage_of(other) in map(storage_of, outside.used()):
            raise LoopError(WRITTEN, self.branches)

    def beside(self, other: Pair) -> Pair | None:
        """Return what follows for two tensors that are each in a pair with a third one; `other` is the newer pair.

        Of two views of one tensor nothing can be told, so a write to either of them is refused.
        """
        when = None if self.when is None or other.when is None else (*self.when, *other.when)
        both = self.branches | other.branches
        if other.whole.is_same(self.part):
            return Pair(other.part, self.whole, (*self.steps, *other.steps), when, both)
        if not other.whole.is_same(self.whole):
            shares = other.whole.place in (self.part.place, self.whole.place)
            third = self.whole if other.whole.place == self.part.place else self.part
            return Pair(other.part, third, (), None, both) if shares else None
        if not other.steps:
            return Pair(self.part, other.part, self.steps, when, both)
        return Pair(other.part, self.part, other.steps, None if self.steps else when, both)


def _is_traced(value: Any) -> bool:
    """Return whether the graph that is traced has a tensor or a number: bodies have their own."""
    traced = get_proxy_mode()
    return traced is not None and get_proxy_slot(value, traced.tracer, None) is not None


_pairs: ContextVar[list[Pair] | None] = ContextVar("pairs", default=None)


ARITHMETIC = frozenset(
    getattr(owner, name)
    for name in (
        *("add", "sub", "mul", "div", "true_divide", "floor_divide", "remainder", "pow", "neg", "sum"),
        *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__"),
        *("__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__pow__", "__rpow__", "__neg__", "__pos__"),
    )
    for owner in (torch, Tensor)
    if hasattr(owner, name)
)
"""Functions for which a truth value of Python's is a number."""


class _Watched(Part):
    """Count truth values; follow a write to one of two tensors that may be one, or refuse its line."""

    functions = ARITHMETIC

    def __init__(self, pairs: list[Pair]) -> None:
        self.pairs = pairs

    def wants(self, func: Any, args: Any, kwargs: Any) -> bool:
        return bool(self.pairs) and func not in READS

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in ARITHMETIC and any(hasattr(each, MERGED_TRUTH) for each in args):
            args = tuple(each.to(torch.int64) if hasattr(each, MERGED_TRUTH) else each for each in args)
        if func in ARITHMETIC and any(hasattr(each, MIXED) for each in args) and not any(map(_is_fraction, args)):
            raise LoopError("a number is a float on one way and whole on another, which decides on the dtype")
        self.pairs[:] = [pair for pair in self.pairs if pair.is_alive]
        if not self.pairs:
            return func(*args, **(kwargs or {}))
        given = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        before = [version(each) for each in given]
        result = func(*args, **(kwargs or {}))
        written = {storage_of(each) for each, was in zip(given, before, strict=True) if version(each) != was}
        for pair in self.pairs if written else ():
            pair.follow(written)
        return result


def _is_fraction(value: Any) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


class _Recording(PreDispatchTorchFunctionMode):
    """The mode of a trace that leaves out what sets a mode of autograd that is set.

    PyTorch's pass over these fails where there are bodies.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch._C._set_grad_enabled and args == (torch.is_grad_enabled(),):
            return None
        return _recorded(self, func, types, args, kwargs)


_recorded = PreDispatchTorchFunctionMode.__torch_function__


@contextmanager
def merged_values_watched() -> Iterator[None]:
    """Let merged values be such meanwhile."""
    pairs: list[Pair] = []
    token = _pairs.set(pairs)
    try:
        with (
            mock.patch.object(PreDispatchTorchFunctionMode, "__torch_function__", _Recording.__torch_function__),
            alternatives_asked(watch_copy) as asked,
            FunctionMode((_Watched(pairs), asked, ViewsNoted())),
        ):
            yield
    finally:
        _pairs.reset(token)


def may_share(tensor: Tensor) -> Iterator[int]:
    """Yield the ids of the memory that a merged tensor has in eager PyTorch, on some of its ways."""
    place = storage_of(tensor)
    for pair in _pairs.get() or ():
        sides = pair.part.place, pair.whole.place
        if place in sides:
            yield from (each for each in sides if each is not None and each != place)


def told_apart(
    tensors: Sequence[Tensor], ways: Iterable[Sequence[Any]], branches: frozenset[Line] = frozenset()
) -> Sequence[Tensor]:
    """Note on the results of a branch or a loop that only rehearses what they would be other names of.

    Args:
        tensors: The results, which are copies.
        ways: For each way, what it gives in the place of each of the results.
        branches: The line of a branch.

    Returns:
        The results.
    """
    ways = [*ways]
    note_alternatives(tensors, ways, branches)
    for leaves in ways:
        for tensor, leaf in zip(tensors, leaves, strict=True):
            if isinstance(leaf, Tensor):
                setattr(tensor, COPIES, (*getattr(tensor, COPIES, ()), leaf))
    return tensors


def _copied(tensor: Any) -> Iterator[Tensor]:
    """Yield what a result that was rehearsed, or what a view of it, would be another name of."""
    for each in getattr(origin_of(tensor)[0], COPIES, ()) if isinstance(tensor, Tensor) else ():
        yield each
        yield from _copied(each)


def shared_by(tensor: Tensor) -> Iterator[Tensor]:
    """Yield a tensor, and what it may be another name of."""
    yield from (tensor, *_copied(tensor))


def require_unwritten(values: Iterable[Any], outside: Outside, reason: str) -> None:
    """Raise LoopError where one of the values is, or may be a view of, a tensor that bodies write to."""
    written = {storage_of(each) for each in outside.written.values()}
    tensors = (each for value in values if isinstance(value, Tensor) for each in shared_by(value))
    if any(storage_of(each) in written for each in tensors):
        raise LoopError(reason)


def watch_merged(
    merged: Sequence[Tensor],
    ways: Iterable[Sequence[Any]],
    outside: Outside,
    tests: Sequence[Test | None],
    starts: Sequence[Any] = (),
    branches: frozenset[Line] = frozenset(),
) -> None:
    """Note what the results of a branch or a loop may share memory with.

    Args:
        merged: The results.
        ways: For each way, what it gives in the place of each of the results, traced with the tensors of outside.
        outside: The tensors that the ways read.
        tests: For each way, the test for which it is taken; None for one that may be taken several times.
        starts: What a loop carries before its first turn, which no turn reads.
        branches: The line of a branch.
    """
    around = (*outside.tensors.values(), *outside.written.values(), *starts)
    read = {storage_of(each) for each in around if isinstance(each, Tensor)}
    for leaves, test in zip(ways, tests, strict=True):
        places = [storage_of(leaf) if isinstance(leaf, Tensor) else None for leaf in leaves]
        for i, place in enumerate(places):
            if place in read:
                leaf = standing_for(leaves[i])
                origin, steps = origin_of(leaf)
                with rehearsed((origin,)):
                    told = test if are_repeatable(origin, steps, leaf) else None
                _note(merged[i], origin, steps, told, branches)
            for other in _copied(leaves[i]):
                if storage_of(other) in read:
                    _note(merged[i], *origin_of(standing_for(other)), None, branches)
            if place is not None and place not in read:  # a tensor that the way has made
                for j in range(i):
                    if places[j] == place:
                        _note(merged[i], merged[j], [], test if leaves[i] is leaves[j] else None, branches)


def watch_copies(copy: Tensor, originals: Iterable[Tensor]) -> None:
    """Note that a tensor would be one of several others, were it no copy: a write to any of them is refused."""
    listed = [*originals]
    told_apart([copy], [[each] for each in listed])
    for each in listed:
        watch_copy(copy, each, frozenset())


def watch_copy(copy: Tensor, original: Tensor, branches: frozenset[Line]) -> None:
    """Note that a tensor may be a view of another one, as these branches decide: a write to either is refused."""
    _note(copy, *origin_of(original), None, branches)


def _note(new: Tensor, old: Tensor, steps: Sequence[Step], test: Test | None, branches: frozenset[Line]) -> None:
    """Note that a new tensor may be a view of another one, and of all that the other one may be."""
    pairs = _pairs.get()
    if pairs is None or new is old:
        return
    when = None if test is None else (test,)
    found = Pair(_Side(weakref.ref(new)), _Side(weakref.ref(old)), tuple(steps), when, branches)
    further = (pair.beside(found) for pair in pairs if pair.is_alive and not pair.part.is_same(found.part))
    pairs += [each for each in (found, *filter(None, further)) if not any(map(each.is_within, pairs))]
