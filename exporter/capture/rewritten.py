"""The statements that a capture has rewritten: each is told, and makes the capture one that has to prove itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from fxport.diagnostics import Place
from fxport.exporter.capture.guards.askers import place_of_asker


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A statement that became an operator: "if", "for" or "while"; or a "call" that was replaced. And its line."""

    kind: str
    place: Place | None


_record: ContextVar[list[Rewritten] | None] = ContextVar("rewritten", default=None)


@contextmanager
def rewritten_noted(found: list[Rewritten]) -> Iterator[None]:
    """Collect the statements that are rewritten meanwhile, in the place of those found before."""
    found.clear()
    token = _record.set(found)
    try:
        yield
    finally:
        _record.reset(token)


def note_rewritten(kind: str) -> None:
    """Note that the statement that runs is now an operator of the graph."""
    found = _record.get()
    if found is not None and (each := Rewritten(kind, place_of_asker())) not in found:
        found.append(each)
