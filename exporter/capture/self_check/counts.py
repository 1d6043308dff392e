"""Numbers that a model counts from call to call: whether it does something else at one that its code names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import CodeType
from typing import Any

from fxport.exporter.capture.eager import interrupted
from fxport.exporter.capture.snapshot import Change, Snapshot

MOST_SECONDS = 2.0
"""CPU time after which no further number is tried."""

NEAR = range(-2, 3)
"""Steps of the count around a number that is named, which are tried, too."""

LARGEST = 10**6
"""Of the numbers that are tried: a model may make as many elements."""


def decides_at_a_number(state: Snapshot, differs: Callable[[], bool]) -> bool:
    """Return whether a count that has changed since `state` decides on results where it comes to a number.

    Such numbers are those in the code that can be reached, and those that objects hold: `if self.calls > self.warmup`.

    Args:
        state: What the model reached before a call.
        differs: Calls the model once more; returns whether it gives something else than it gave after that call, and
            leaves tensors as they were.
    """
    end = time.thread_time() + MOST_SECONDS
    after = state.anew()
    named = sorted({*_named(state)})
    for change in state.changes():
        for number in _ahead(change, named):
            if time.thread_time() > end:
                return False
            try:
                replace(change, before=number).undo()
                with interrupted(MOST_SECONDS):  # of a loop that turns as often
                    if differs():
                        return True
            finally:
                after.restore()
    return False


def _named(state: Snapshot) -> Iterator[float]:
    for function in state.functions():
        yield from numbers_in(function.__code__)
    yield from (value for _, _, value in state.values() if type(value) in (int, float) and abs(value) <= LARGEST)


def numbers_in(code: CodeType) -> Iterator[float]:
    """Yield the numbers in a code, and in those of the functions within it."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from numbers_in(each)
        elif type(each) in (int, float) and abs(each) <= LARGEST:
            yield each


def _ahead(change: Change, named: list[float]) -> Iterator[Any]:
    """Yield the numbers to which a count comes, if it goes on as it did, near those that are named."""
    before, now = change.before, change.after
    if type(before) is not type(now) or type(now) not in (int, float) or now == before:
        return
    step = now - before
    tried = set()
    for number in named:
        turns = round((number - now) / step)
        for count in (turns + each for each in NEAR):
            if count > 0 and count not in tried:
                tried.add(count)
                yield now + count * step
