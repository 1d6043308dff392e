"""Standard streams: closed before the start, or full; and what the edge says in one line."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def say(text: str, code: int) -> int:
    """Write a line to standard error and return the exit code."""
    with suppress(OSError):  # there is no other place to say it
        print(f"fxport: {text}", file=sys.stderr, flush=True)
    return code


def open_streams() -> None:
    """Open the null device for streams that were closed before the start: files of ours would get their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # as long as the process


def flushed(code: int) -> int:
    """Write what standard output holds back, and return the exit code. Raises OSError where it cannot be written."""
    with suppress(BrokenPipeError):  # who reads it has seen enough
        sys.stdout.flush()
    return code


def is_of_stdout(error: Exception) -> bool:
    """Return True if standard output cannot be written. What is left to be written there is dropped."""
    if not isinstance(error, OSError) or error.filename is not None:
        return False
    try:
        os.write(1, b"\n")  # Python has dropped what failed: only a further byte tells
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the flush at the end of the process
        return True
    return False


def told(error: Exception) -> str | None:
    """Return what to say of an error that is none of fxport's: of the machine, its files or streams; else None."""
    from fxport.diagnostics.escape import terminal
    from fxport.diagnostics.exhaustion import exhausted, unusable

    if is_of_stdout(error):
        return f"standard output cannot be written: {error}; send it elsewhere."
    if (found := exhausted(error)) is not None:
        return terminal(f"there is not enough {found[0]}: {found[1]}.")
    said = unusable(error)
    return None if said is None else terminal(f"{said}.")
