"""Caches of keys and values, of which each block reads and replaces the layer of its own number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from fxport.exporter.capture.repeated.numbers import Number

LAYERS = "layers"
"""The attribute of a cache that holds its layers."""


@dataclass(frozen=True)
class Cached:
    """The layers of caches that a call of a block may use: those of the number of the block.

    Attributes:
        number: The number of the block. Without it there are no caches.
        caches: The caches among the arguments of the call.
    """

    number: int | None
    caches: Sequence[Any]

    def state(self) -> list[dict[str, Any]]:
        """Return what these layers hold, by the names of their attributes."""
        return [dict(vars(cache.layers[self.number])) for cache in self.caches]

    def take(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Make these layers hold something else."""
        for cache, state in zip(self.caches, states, strict=True):
            variables = vars(cache.layers[self.number])
            variables.clear()
            variables.update(state)

    @contextmanager
    def holding(self, states: Sequence[Mapping[str, Any]]) -> Iterator[None]:
        """Make these layers hold something else for a while."""
        now = self.state()
        self.take(states)
        try:
            yield
        finally:
            self.take(now)

    def with_state(self, results: Any) -> tuple[Any, list[dict[str, Any]]]:
        """Return all that a call has made: its results, and what these layers hold after it."""
        return results, self.state()

    def others(self) -> list[Any]:
        """Return what a call must leave as it is: the caches, and what their other layers hold, all by identity."""
        found: list[Any] = []
        for cache in self.caches:
            own = cache.layers[self.number]
            held = [*cache.layers, *(value for name, value in vars(cache).items() if name != LAYERS)]
            inner = (value for layer in cache.layers if layer is not own for value in vars(layer).values())
            found.extend(map(id, (*held, *inner)))
        return found

    @contextmanager
    def watched(self) -> Iterator[Watch]:
        """Tell whether all that is asked for meanwhile is a layer by the number of the block."""
        watch = Watch(self.number)
        with ExitStack() as leaving:
            for cache in self.caches:
                held = cache.layers
                cache.layers = seen = Layers(held)
                seen.watch = watch
                leaving.callback(_put_back, cache, held, seen)
            yield watch


def _put_back(cache: Any, held: list[Any], seen: list[Any]) -> None:
    held[:] = list.copy(seen)
    cache.layers = held


@dataclass
class Watch:
    """Questions of a call to lists of layers.

    Attributes:
        number: The number of the block.
        is_passed: Something was asked for that is not the layer of this number, or a list was changed.
    """

    number: int | None
    is_passed: bool = False


class Layers(list[Any]):
    """Layers of a cache that note what they are asked for. How many there are may be asked."""

    watch: Watch

    def __getitem__(self, index: Any) -> Any:
        at, is_number = (index.value, True) if type(index) is Number else (index, False)
        self.watch.is_passed |= not is_number or at != self.watch.number
        return list.__getitem__(self, at)


def _passing(name: str) -> Callable[..., Any]:
    method = getattr(list, name)

    def passed(self: Layers, *args: Any) -> Any:
        self.watch.is_passed = True
        return method(self, *args)

    return passed


for _name in (
    *("__iter__", "__reversed__", "__contains__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"),
    *("__setitem__", "__delitem__", "__add__", "__iadd__", "__mul__", "__rmul__", "__imul__", "__repr__"),
    *("append", "extend", "insert", "pop", "remove", "clear", "reverse", "sort", "index", "count", "copy"),
    *("__reduce_ex__", "__sizeof__"),
):
    setattr(Layers, _name, _passing(_name))
