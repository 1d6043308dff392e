"""The rows of a long suite that the usual run takes; `--slow` takes them all.

A row is taken by what it is called, not by where it stands, so a new row changes no lot but those of its own kinds. Of
each kind at least one row is taken: a kind is a family, a lowering, a rule, whatever the suite must not lose.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


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
