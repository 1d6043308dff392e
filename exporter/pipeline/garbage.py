"""Python's garbage collector during an export."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (50_000, 20, 20)
"""Objects before a collection, and collections of each generation before one of the next."""


@contextmanager
def no_collections() -> Iterator[None]:
    """Let Python look for no garbage, as imports make what stays: looking takes a sixth of their time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python look for garbage less often than it does by itself, as an export makes graphs, of which all is in use.

    By itself it looks after each 700 objects, and again and again at all that there are.
    """
    before = gc.get_threshold()
    if before[0]:  # 0: it does not look by itself
        gc.set_threshold(*map(max, before, THRESHOLDS))
    try:
        yield
    finally:
        gc.set_threshold(*before)
