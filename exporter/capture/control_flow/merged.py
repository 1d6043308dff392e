"""What later code may not do, or has to do otherwise, with the merged results of branches and loops.

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
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from exporter.capture.control_flow.lifting import Outside, is_rehearsal, standing_for, storage_of
from exporter.capture.control_flow.merging import MERGED_TRUTH, MIXED, LoopError
from exporter.capture.control_flow.views import ViewsNoted
from exporter.capture.knowledge import version

WRITTEN = "it writes to a tensor that a branch or a loop has made another name of"


Test = tuple[Tensor, bool]
"""What decides on a branch, and with which truth value."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One of two tensors: its memory, which lives as long as a view of it, and the tensor itself."""

    memory: weakref.ref[torch.UntypedStorage]
    tensor: weakref.ref[Tensor]

    @staticmethod
    def of(tensor: Tensor) -> _Side:
        return _Side(weakref.ref(tensor.untyped_storage()), weakref.ref(tensor))

    @property
    def place(self) -> int | None:
        """What tells its memory from others; None once nothing has it any more."""
        memory = self.memory()
        return None if memory is None else memory._cdata


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tensors that may share memory in eager PyTorch, and do not in the graph.

    Attributes:
        sides: Both.
        when: The tests that tell whether they are one and the same tensor, each with the answer for which they are.
            None where no test tells, or where the one is a part of the other.
    """

    sides: tuple[_Side, _Side]
    when: tuple[Test, ...] | None

    @property
    def is_alive(self) -> bool:
        return all(side.place is not None for side in self.sides)

    def follow(self, written: set[int]) -> None:
        """Write to the other tensor what was written to one of them.

        Raises:
            LoopError: That cannot be told, or is not seen: a body of control flow has tensors of its own.
        """
        hit = [side for side in self.sides if side.place in written]
        if not hit:
            return
        (other,) = [side for side in self.sides if side not in hit] or [None]
        source, target = hit[0].tensor(), other and other.tensor()
        if self.when is None or source is None or target is None or is_rehearsal():
            raise LoopError(WRITTEN)
        if not all(_is_traced(tensor) for tensor in (source, target, *(test for test, _ in self.when))):
            raise LoopError(WRITTEN)
        tests = [test if answer else test.logical_not() for test, answer in self.when]
        target.copy_(torch.where(reduce(torch.logical_and, tests), source, target))


def _is_traced(tensor: Tensor) -> bool:
    """Return whether the graph that is traced has the tensor: bodies have their own."""
    traced = get_proxy_mode()
    return traced is not None and get_proxy_slot(tensor, traced.tracer, None) is not None


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


class _Watched(TorchFunctionMode):
    """Counts truth values, and follows a write to one of two tensors that may be one, or refuses its line."""

    def __init__(self, pairs: list[Pair]) -> None:
        super().__init__()
        self.pairs = pairs

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


@contextmanager
def merged_values_watched() -> Iterator[None]:
    """Let merged values be such meanwhile."""
    pairs: list[Pair] = []
    token = _pairs.set(pairs)
    try:
        with ViewsNoted(), _Watched(pairs):
            yield
    finally:
        _pairs.reset(token)


def watch_merged(
    merged: Sequence[Tensor],
    ways: Iterable[Sequence[Any]],
    outside: Outside,
    tests: Sequence[Test | None],
) -> None:
    """Note what the results of a branch or a loop may be other names of.

    Args:
        merged: The results.
        ways: For each way, what it gives in the place of each of the results, traced with the tensors of outside.
        outside: The tensors that the ways read.
        tests: For each way, the test for which it is taken; None for one that may be taken several times.
    """
    others = [*outside.tensors.values(), *outside.written.values()]
    for leaves, test in zip(ways, tests, strict=True):
        places = [storage_of(leaf) if isinstance(leaf, Tensor) else None for leaf in leaves]
        for i, place in enumerate(places):
            if place is None:
                continue
            for other in others:
                if storage_of(other) == place:
                    _note(merged[i], other, test if leaves[i] is other else None)
            for j in range(i):
                if places[j] == place:
                    _note(merged[i], merged[j], test if leaves[i] is leaves[j] else None)


def _note(one: Tensor, other: Tensor, test: Test | None) -> None:
    """Note that a new tensor may be another one, and all that the other one may be."""
    pairs = _pairs.get()
    if pairs is None or one is other:
        return
    other = standing_for(other)  # functions are called with that, and what watches them sees it
    new, old, when = _Side.of(one), _Side.of(other), None if test is None else (test,)
    further = [Pair((new, old), when)]
    for pair in pairs:
        if pair.is_alive and old.place in (places := [side.place for side in pair.sides]) and new.place not in places:
            third = pair.sides[1 - places.index(old.place)]
            same = old.tensor() is pair.sides[places.index(old.place)].tensor()
            both = (*when, *pair.when) if same and when is not None and pair.when is not None else None
            further.append(Pair((new, third), both))
    pairs += further
