"""Objects that end with the function that made them: what a branch does to one of them before it returns is lost.

Python has no list of who holds an object, so the function's own are those that only its variables lead to: they are not
reached from what it was given, from the variables of functions around it, from globals, or from functions it made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from types import CellType, FunctionType
from typing import Any

from torch import Tensor

from fxport.exporter.capture.reachable import ATOMS, reachable

CONTAINERS = (list, tuple, set, frozenset, deque)


@dataclass(frozen=True, slots=True)
class Local:
    """The variables that a function binds itself, and what its caller gave it.

    Attributes:
        given: A function that leads to all that the function is given: its default value is the parameters, and its
            code has the names of globals and attributes, and of variables of functions around.
        names: The variables.
    """

    given: Any  # a function, of which a type checker would make a method
    names: Collection[str]

    def objects(self, parts: Sequence[Callable[..., Any]]) -> set[int]:
        """Return the ids of the objects that only these variables lead to; `parts` of the function share them."""
        functions: list[Any] = [part for part in parts if isinstance(part, FunctionType)]
        found: dict[int, Any] = {}
        others: list[Any] = [_without(function, self.names) for function in (self.given, *functions)]
        for value in (each for function in functions for each in _values(function, self.names)):
            others += _walked(value, found)
        elsewhere = {id(holder.owner) for holder, _ in reachable({str(i): other for i, other in enumerate(others)})}
        return found.keys() - elsewhere


def _cells(function: FunctionType) -> list[tuple[str, CellType]]:
    return [*zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)]


def _values(function: FunctionType, names: Collection[str]) -> Iterator[Any]:
    for name, cell in _cells(function):
        try:
            if name in names:
                yield cell.cell_contents
        except ValueError:  # not bound yet
            continue


def _without(function: FunctionType, names: Collection[str]) -> FunctionType:
    """Return the function with these of its variables unbound."""
    closure = tuple(CellType() if name in names else cell for name, cell in _cells(function))
    return FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, closure)


def _walked(value: Any, found: dict[int, Any]) -> Iterator[Any]:
    """Add an object and what it holds to `found`; yield what is no data and may lead anywhere, such as a function."""
    if type(value) in ATOMS or isinstance(value, Tensor) or id(value) in found:
        return
    if isinstance(value, dict):
        parts: list[Any] = [*value.keys(), *value.values()]
    elif isinstance(value, list):
        parts = [*list.__iter__(value)]  # also of one that may not be gone through
    elif isinstance(value, CONTAINERS):
        parts = [*value]
    elif type(value).__dictoffset__ and not callable(value):
        parts = [*vars(value).values()]
        yield type(value)
    else:
        yield value
        return
    found[id(value)] = value
    for part in parts:
        yield from _walked(part, found)
