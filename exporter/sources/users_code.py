"""Code of the user's that is run while a model is made: what it raises is told with its line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from fxport.diagnostics import Place
from fxport.diagnostics.exhaustion import raise_if_exhausted
from fxport.diagnostics.messages import error_text
from fxport.diagnostics.source import place_of_exception
from fxport.exporter.sources.usage import UsageError

T = TypeVar("T")

ADVICE: Mapping[str, str] = {
    "ModuleNotFoundError: ": "install it in the environment of fxport",
    "not compiled with CUDA": "make the model on the CPU: an export needs no GPU",
    "Found no NVIDIA driver": "make the model on the CPU: an export needs no GPU",
    "SystemExit: ": 'its code ends the program, as argparse does; put that under `if __name__ == "__main__":`',
}
"""Advice by a part of the error that the user's code raised."""


def users_code(function: Callable[[], T], doing: str) -> T:
    """Run code of the user's; what it raises is told with the line of the user's that raised it, as a UsageError.

    That the machine has run out of something is raised as it is.

    A script that reads `sys.argv` finds no arguments there: those of fxport are not its own.
    """
    arguments = sys.argv
    sys.argv = arguments[:1]
    try:
        return function()
    except (Exception, SystemExit) as error:
        raise_if_exhausted(error)
        kind, text = type(error).__name__, error_text(error)
        said = error.msg if isinstance(error, SyntaxError) else text  # without its place, which is told already
        advice = next((f"; {advice}" for part, advice in ADVICE.items() if part in f"{kind}: {text}"), "")
        raise UsageError(
            f"{doing} raised {kind}{where_raised(error)}{f': {said}' * (said != kind)}{advice}."
        ) from error
    finally:
        sys.argv = arguments


def where_raised(error: BaseException) -> str:
    """` at file.py:12`, or nothing where no line of the user's took part."""
    place = raised_at(error)
    return f" at {shown(place.path)}:{place.line}" if place else ""


def raised_at(error: BaseException) -> Place | None:
    """Return the line of the user's code that an exception comes from, also by way of a `UsageError`."""
    first = error
    while first.__cause__ is not None:
        first = first.__cause__
    if isinstance(first, SyntaxError) and first.filename:
        return Place(first.filename, first.lineno or 1)
    return place_of_exception(first)


def shown(path: str) -> str:
    """A path as the user would type it: relative where it is inside the current folder."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path
