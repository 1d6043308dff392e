"""Lists, dicts and sets that a branch or a turn may not change: no operator gives those, and nothing would undo it."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any

from torch import SymBool, SymFloat, SymInt, nn
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from exporter.capture.control_flow.merging import LoopError

Container = list[Any] | dict[Any, Any] | set[Any]

OWN = frozenset(vars(nn.Module()))
"""Attributes in which a module has what PyTorch itself knows of it."""


def numbers_around(way: Callable[..., Any]) -> list[SymInt | SymFloat | SymBool]:
    """The numbers that data tells and that a function has from around: PyTorch does not see Python compute."""
    found: dict[int, Any] = {}
    waiting, seen = [way], set[int]()
    while waiting:
        each: Any = waiting.pop()
        if isinstance(each, (SymInt, SymFloat, SymBool)) and free_unbacked_symbols(each):
            found[id(each)] = each
        if id(each) not in seen and not isinstance(each, nn.Module):
            seen.add(id(each))
            waiting += within(each)
    return [*found.values()]


@contextmanager
def containers_unchanged(way: Callable[..., Any]) -> Iterator[None]:
    """Raises LoopError if what happens meanwhile changes one that the way can see; it is then as it was."""
    found: dict[int, tuple[Container, Any]] = {}
    _look(way, found, set())
    changed = False
    try:
        yield
    finally:
        for container, before in found.values():
            if not _same(container, before):
                _restore(container, before)
                changed = True
    if changed:
        raise LoopError("a list, a dict or a set that a branch or a turn changes")


def _look(value: Any, found: dict[int, tuple[Container, Any]], seen: set[int]) -> None:
    """Notes the containers that can be reached from a value, with what is in them."""
    if id(value) in seen:
        return
    seen.add(id(value))
    for each in within(value):
        if isinstance(each, list):
            found[id(each)] = (each, [*list.__iter__(each)])
        elif isinstance(each, (dict, set)):
            found[id(each)] = (each, each.copy())
        _look(each, found, seen)


def within(value: Any) -> Iterator[Any]:
    """What a function, a module or a container holds, one step down."""
    if isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # a name that is not bound yet
                continue
    elif isinstance(value, functools.partial):
        yield from (value.func, *value.args)
    elif isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, nn.Module):
        yield from (each for name, each in vars(value).items() if name not in OWN)
        yield from value.children()
    elif isinstance(value, (list, tuple, deque)):
        yield from list.__iter__(value) if isinstance(value, list) else value
    elif isinstance(value, dict):
        yield from value.values()


def _same(container: Container, before: Any) -> bool:
    if isinstance(container, dict):
        return container.keys() == before.keys() and all(each is before[key] for key, each in container.items())
    if isinstance(container, list):
        now = [*list.__iter__(container)]
        return len(now) == len(before) and all(one is other for one, other in zip(now, before, strict=True))
    return container == before


def _restore(container: Container, before: Any) -> None:
    if isinstance(container, list):
        list.__setitem__(container, slice(None), before)
    else:
        container.clear()
        container.update(before)
