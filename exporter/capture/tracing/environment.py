"""What `forward` reads of the machine while it is captured: the clock and environment variables.

The graph has what these gave in that one run.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from diagnostics import Place
from diagnostics.source import USER, kind_of, place_of_stack

CLOCKS = ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time")
"""Functions of Python's `time`."""

_BETWEEN = frozenset(function.__code__.co_filename for function in (os.getenv, Mapping.get))
"""Where `os.getenv` and `os.environ.get` read a variable for their caller."""

Reads = dict[tuple[str, str, int], Place | None]
"""The places of what was read, by its name and the file and the line that read it."""


@contextmanager
def environment_watched() -> Iterator[Reads]:
    """Notes what the user's own lines read meanwhile."""
    found: Reads = {}
    variable = type(os.environ).__getitem__

    def note(name: str) -> None:
        frame: Any = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename in _BETWEEN:
            frame = frame.f_back
        if frame is not None and kind_of(frame.f_code.co_filename) == USER:
            at = (name, frame.f_code.co_filename, frame.f_lineno)
            found.setdefault(at, place_of_stack(list(traceback.walk_stack(frame))))

    def clock(name: str, function: Callable[[], Any]) -> Callable[[], Any]:
        def read() -> Any:
            note(f"time.{name}")
            return function()

        return read

    def looked_up(environment: Any, key: str) -> str:
        note(f"os.environ['{key}']")
        return variable(environment, key)

    with ExitStack() as stack:
        for name in CLOCKS:
            stack.enter_context(mock.patch.object(time, name, clock(name, getattr(time, name))))
        stack.enter_context(mock.patch.object(type(os.environ), "__getitem__", looked_up))
        yield found
