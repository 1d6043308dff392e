"""What later code may not do, or has to do otherwise, with the merged results of branches and loops.

Truth values of Python are tensors of booleans in the graph, but count as 0 and 1 in arithmetic. And tensors that may be
one tensor in eager PyTorch are two in the graph: neither may be written to any more.

After `y = x if test else z`, a write to `y` is one to `x` or to `z`, by the data; the graph has a third tensor. So it
is with what a loop carries: `best = h` makes one tensor of two names.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from exporter.capture.control_flow.lifting import Outside, storage_of
from exporter.capture.control_flow.merging import MERGED_TRUTH, MIXED, LoopError


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tensors that may be one, and the versions that they had when this was noted."""

    one: weakref.ref[Tensor]
    other: weakref.ref[Tensor]
    versions: tuple[int, int]

    @property
    def is_alive(self) -> bool:
        return self.one() is not None and self.other() is not None

    @property
    def is_written(self) -> bool:
        one, other = self.one(), self.other()
        return one is not None and other is not None and (one._version, other._version) != self.versions


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
    """Counts truth values, and refuses a write to one of two tensors that may be one, at the line that writes."""

    def __init__(self, pairs: list[Pair]) -> None:
        super().__init__()
        self.pairs = pairs

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in ARITHMETIC and any(hasattr(each, MERGED_TRUTH) for each in args):
            args = tuple(each.to(torch.int64) if hasattr(each, MERGED_TRUTH) else each for each in args)
        if func in ARITHMETIC and any(hasattr(each, MIXED) for each in args) and not any(map(_is_fraction, args)):
            raise LoopError("a number is a float on one way and whole on another, which decides on the dtype")
        result = func(*args, **(kwargs or {}))
        if self.pairs:
            self.pairs[:] = [pair for pair in self.pairs if pair.is_alive]
            if any(pair.is_written for pair in self.pairs):
                raise LoopError("it writes to a tensor that a branch or a loop has made another name of")
        return result


def _is_fraction(value: Any) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


@contextmanager
def merged_values_watched() -> Iterator[None]:
    """Let merged values be such meanwhile."""
    pairs: list[Pair] = []
    token = _pairs.set(pairs)
    try:
        with _Watched(pairs):
            yield
    finally:
        _pairs.reset(token)


def watch_merged(merged: Sequence[Tensor], ways: Iterable[Sequence[Any]], outside: Outside) -> None:
    """Note what the results of a branch or a loop may be other names of.

    Args:
        merged: The results.
        ways: For each way, what it gives in the place of each of the results, traced with the tensors of outside.
        outside: The tensors that the ways read.
    """
    others = [*outside.tensors.values(), *outside.written.values()]
    for leaves in ways:
        places = [storage_of(leaf) if isinstance(leaf, Tensor) else None for leaf in leaves]
        for i, place in enumerate(places):
            if place is None:
                continue
            for other in others:
                if storage_of(other) == place:
                    _note(merged[i], other)
            for j in range(i):
                if places[j] == place:
                    _note(merged[i], merged[j])


def _note(one: Tensor, other: Tensor) -> None:
    pairs = _pairs.get()
    if pairs is not None and one is not other:
        pairs.append(Pair(weakref.ref(one), weakref.ref(other), (one._version, other._version)))
