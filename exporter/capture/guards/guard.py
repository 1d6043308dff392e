"""Conditions on sizes that decided the path through a model, each with the user's line that asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import sympy
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from fxport.diagnostics import Place
from fxport.exporter.capture.guards.askers import Line, is_about_layout, place_of_asker, way_of_asking
from fxport.fx_passes.graph import place_of
from fxport.fx_passes.sizes import NamedSize, rebuilt, unfolded

IN_VIEW = "it writes to a view, and PyTorch puts what is written back at fixed sizes"


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on sizes that the capture relies on, with what PyTorch then knew about them, and its line."""

    condition: sympy.Basic
    env: ShapeEnv
    place: Place | None
    by_user: bool
    """The user's Python code asked, or a library's; else an op did, to choose among computations of one result."""
    counted: bool
    """It comes from making a Python number of a size, as `range(n)` and `int(n)` do."""
    about_layout: bool
    """It says how a tensor lies in memory: the captured graph may hold a copy more or less, and no other result."""

    @property
    def now(self) -> Any:
        """Return the condition in terms of the sizes that are still free at the end of the capture."""
        if not self.condition.atoms(NamedSize):
            return self.env.replace(self.condition)  # type: ignore[arg-type]  # a condition is an expression
        condition = unfolded(self.condition)
        free = {symbol: self.env.replace(symbol) for symbol in condition.free_symbols}
        return rebuilt(condition, free, evaluate=False)

    @property
    def sources(self) -> frozenset[str]:
        """Return the sizes that it is about: "L['x'].size()[0]"."""
        symbols = unfolded(self.condition).free_symbols
        return frozenset(str(name) for name, symbol in self.env.source_to_var.items() if symbol in symbols)


@contextmanager
def guards_noted(found: list[Guard]) -> Iterator[None]:
    """Add every guard that PyTorch makes while this is active; its own trace of them costs many times the capture.

    A guard is rare, so its stack may be looked at.
    """
    log_guard = ShapeEnv._log_guard

    def logged(self: ShapeEnv, prefix: str, guard: Any, forcing_spec: bool) -> None:
        found.append(Guard(guard, self, place_of_asker(), *way_of_asking(), is_about_layout()))
        log_guard(self, prefix, guard, forcing_spec)

    with mock.patch.object(ShapeEnv, "_log_guard", logged):
        yield


def blame_writes(writes: Sequence[Node], guards: list[Guard], known: int, unkept: dict[Line, str]) -> None:
    """Give the guards behind the first `known`, which have no line, that of the writes, if all are on one line.

    PyTorch makes such guards where it takes writes out of a graph. `unkept` gets the reason, by that line.
    """
    places = {(each.path, each.line): each for node in writes if (each := place_of(node)) is not None}
    unplaced = [number for number in range(known, len(guards)) if guards[number].place is None]
    if len(places) == 1 and unplaced:
        ((line, place),) = places.items()
        unkept.setdefault(line, IN_VIEW)
        for number in unplaced:
            guards[number] = replace(guards[number], place=place)


def guard_of(env: ShapeEnv, asked: Any, answer: Any) -> Guard | None:
    """Return the guard that the answer to a question of the user's code relies on; None if it relies on nothing.

    PyTorch makes no guard where it takes no dynamic size to be 0 or 1.
    """
    if not asked.free_symbols:
        return None
    by_user, counted = way_of_asking()
    return Guard(_answered(asked, answer), env, place_of_asker(), True, counted, False) if by_user else None


def _answered(asked: Any, answer: Any) -> sympy.Basic:
    """Return the condition under which a question about sizes has this answer."""
    if answer is sympy.true or answer is True:
        return asked
    if answer is sympy.false or answer is False:
        return sympy.Not(asked)
    return sympy.Eq(asked, answer)
