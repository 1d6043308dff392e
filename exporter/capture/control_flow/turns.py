"""Lists that were there before a loop of which a turn runs now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

in_turns: dict[int, bool] = {}
"""The ids of lists that are there before a loop whose turns run now, and whether these put elements at the head."""


@contextmanager
def turns_entered(lists: Iterable[tuple[Any, bool]]) -> Iterator[None]:
    """Let lists know meanwhile that a turn of a loop runs, and whether the turns put elements at their heads."""
    before = {**in_turns}
    for each, has_front in lists:
        in_turns[id(each)] = has_front or before.get(id(each), False)
    try:
        yield
    finally:
        in_turns.clear()
        in_turns.update(before)


def is_in_turns(values: Any) -> bool:
    """Return whether a list was there before a loop of which a turn runs now."""
    return id(values) in in_turns
