"""Standard streams: closed before the start, or full; and what the edge says in one line."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def say(text: str, code: int) -> int:
    """Write a line to standard error and return the exit code."""
    with suppress(OSError):  # there is no other place to say it
        print(f"fxport: {text}", file=sys.stderr, flush=True)
    return code


class _Dropping(io.FileIO):
    """Write to a standard stream, and drop what fails with one of some errors."""

    def __init__(self, number: int, dropped: type[OSError]) -> None:
        super().__init__(number, "w", closefd=False)
        self._dropped = dropped
        self.has_dropped = False

    def write(self, content: ReadableBuffer, /) -> int | None:
        try:
            return super().write(content)
        except self._dropped:
            self.has_dropped = True
            return len(memoryview(content).cast("B"))


_STREAMS: Sequence[tuple[str, int, str, type[OSError] | None]] = (
    ("stdin", 0, "r", None),
    ("stdout", 1, "w", BrokenPipeError),
    ("stderr", 2, "w", OSError),
)
"""Name, number and mode of each standard stream, and the errors by which what is written to it is dropped."""


def open_streams() -> None:
    """Have standard streams that a command can rely on.

    Those that were closed before the start are the null device: files of ours would get their numbers. Of standard
    output that nobody reads any more the rest is dropped, as is all that standard error does not take: the command goes
    on to its reports and its exit code.
    """
    for name, number, mode, dropped in _STREAMS:
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # as long as the process
        elif dropped is not None and type(_raw(stream)) is io.FileIO and stream.fileno() == number:  # else of Windows
            stream.flush()
            setattr(sys, name, _like(stream, _Dropping(number, dropped)))


def is_unread() -> bool:
    """Return True once standard output has lost its reader, so that what is printed is dropped."""
    raw = _raw(sys.stdout)
    return isinstance(raw, _Dropping) and raw.has_dropped


def _raw(stream: Any) -> object:  # Any: whatever stands for a standard stream
    buffer = getattr(stream, "buffer", None)
    return getattr(buffer, "raw", buffer)


def _like(stream: io.TextIOWrapper, raw: io.RawIOBase) -> io.TextIOWrapper:
    """A text stream with the settings of another one. What its encoding lacks, as file names may, is spelled out."""
    has_buffer = isinstance(stream.buffer, io.BufferedIOBase)  # not so under PYTHONUNBUFFERED
    return io.TextIOWrapper(
        io.BufferedWriter(raw) if has_buffer else raw,  # type: ignore[arg-type]  # as Python itself makes it
        stream.encoding,
        "backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def flushed(code: int) -> int:
    """Write what standard output holds back, and return the exit code. Raises OSError where it cannot be written."""
    with suppress(BrokenPipeError):  # who reads it has seen enough
        sys.stdout.flush()
    return code


def require_working_folder() -> None:
    """Raise OSError where the working folder is gone: a library of PyTorch's would end the process in its own words."""
    os.getcwd()


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
