"""Source lines at which a process crashed or was stopped, read from the output of Python's fault handler."""

from __future__ import annotations

import re
import signal

from fxport.diagnostics.model import Frame, Place
from fxport.diagnostics.source import USER, kind_of

CRASHES = frozenset(("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGSYS"))
"""Signals that a process gets for what its own code does; others are sent to it."""
_FRAME = re.compile(r'^  File "(?P<path>.*)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*:$", re.MULTILINE)
_BEGINS = re.compile(r"^(?:Fatal Python error: |Current thread 0x|Thread 0x)", re.MULTILINE)


def name_of_signal(number: int) -> str:
    """The name of a signal, or its number where it has none, as those of real time."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def place_in(text: str) -> Place | None:
    """The innermost line of the user's, of the thread that crashed, else of the first that has one; None without."""
    _, *stacks = _THREAD.split(text)
    current = [part for part in re.split(r"^(?=Current thread )", text, flags=re.MULTILINE) if part.startswith("Cur")]
    for stack in [_THREAD.split(part)[1] for part in current] + stacks:
        frames = [Frame(each["path"], int(each["line"]), each["function"]) for each in _FRAME.finditer(stack)]
        own = next((number for number, frame in enumerate(frames) if kind_of(frame.path) == USER), None)
        if own is not None:
            return Place(frames[own].path, frames[own].line, stack=tuple(frames[own:]))
    return None


def without_stack(text: str) -> str:
    """The text up to where the fault handler begins to write."""
    begin = _BEGINS.search(text)
    return text if begin is None else text[: begin.start()]
