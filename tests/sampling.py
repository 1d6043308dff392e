"""The rows of long suites that the usual run takes; `--slow` takes them all.

A suite of many rows of one kind draws them by `sampled`: a row is taken by what it is called, not by where it stands,
so a new row changes no lot but those of its own kinds. Of each kind at least one row is taken: a kind is a family, a
lowering, a rule, whatever the suite must not lose.

Of suites whose rows differ more, the usual run leaves out the rows that `left_out.txt` names: each part of the code
that these rows run is run by others too, with the same end: a model, or a refusal. A row that is not named there is
taken, so a new one is run from the start, and so is every quick one.
`python -m tests.reach` writes the table anew.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

LEFT_OUT = Path(__file__).with_name("left_out.txt")
"""A line for a test function, and below it, indented, one for each of its rows that the usual run leaves out."""


def sampled(
    rows: Sequence[T], name: Callable[[T], str], kinds: Callable[[T], Iterable[str]], *, one_in: int
) -> list[bool]:
    """Return for each row whether the usual run takes it.

    Args:
        rows: The rows of the suite.
        name: What a row is called, the same in every process.
        kinds: The kinds that a row is of.
        one_in: One in so many rows is taken, and more where a kind has none else.
    """
    lots = [zlib.crc32(name(row).encode()) for row in rows]
    taken = [lot % one_in == 0 for lot in lots]
    seen = {kind for row, is_taken in zip(rows, taken, strict=True) if is_taken for kind in kinds(row)}
    for i in sorted(range(len(rows)), key=lots.__getitem__):
        if missing := {*kinds(rows[i])} - seen:
            taken[i] = True
            seen |= missing
    return taken


def marks_of(is_taken: bool, known_gap: str | None = None) -> list[Any]:
    """Return the marks of a row: `slow` if the usual run does not take it, a strict xfail if it has a known gap."""
    gap = [pytest.mark.xfail(reason=known_gap, strict=True)] if known_gap else []
    return [*gap, *([] if is_taken else [pytest.mark.slow])]


@cache
def left_out() -> frozenset[str]:
    """Return the ids of the rows that the table leaves out."""
    found, function = set(), ""
    for line in LEFT_OUT.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            found.add(f"{function}[{line.strip()}]")
        else:
            function = line
    return frozenset(found)


def write_left_out(ids: Iterable[str]) -> None:
    """Write the table of the rows that are left out."""
    lines, last = [], ""
    for each in sorted(ids):
        function, row = each.removesuffix("]").split("[", 1)
        if function != last:
            lines.append(function)
        lines.append(f"  {row}")
        last = function
    LEFT_OUT.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Reach:
    """The seconds of CPU that a row takes, and what it reaches."""

    seconds: float
    blocks: frozenset[str]


def chosen(rows: Mapping[str, Reach], *, quick: float = 0.0) -> Collection[str]:
    """Return few rows that reach all that the rows reach: those that take less than `quick` seconds, and others.

    Of the others the row that reaches the most for its seconds of what is still wanted comes first.
    """
    taken = [name for name, row in rows.items() if row.seconds < quick]
    reached = Counter(block for name in taken for block in rows[name].blocks)

    def gain(name: str) -> float:
        return sum(not reached[block] for block in rows[name].blocks) / (rows[name].seconds + OWN)

    waiting = [(-gain(name), name) for name in rows.keys() - {*taken}]
    heapify(waiting)
    while waiting:
        name = heappop(waiting)[1]
        now = gain(name)  # it only ever falls: one that is still the first has the largest
        if now and waiting and (-now, name) > waiting[0]:
            heappush(waiting, (-now, name))
        elif now:
            taken.append(name)
            reached.update(rows[name].blocks)
    for name in sorted(taken, key=lambda name: -rows[name].seconds):
        if rows[name].seconds >= quick and all(reached[block] > 1 for block in rows[name].blocks):
            taken.remove(name)  # those that came later reach all of it
            reached.subtract(rows[name].blocks)
    return taken


OWN = 0.05
"""Seconds that any test takes beside what it measures."""
