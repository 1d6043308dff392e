"""Errors that the model's own statements catch, noted while it runs: a graph has what follows one of them, or none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from types import FrameType, FunctionType
from typing import Any

from fxport.diagnostics import Place
from fxport.diagnostics.source import place_of_stack
from fxport.exporter.capture.guards.handlers import handles, is_caught

Caught = MutableMapping[tuple[str, int, str], Place | None]
"""By file, line and type of the errors: the places at which the model caught some."""

OF_ITERATORS = (StopIteration, StopAsyncIteration, GeneratorExit)
"""Errors by which iterators end, which every loop catches."""


@contextmanager
def caught_errors(functions: Iterable[FunctionType], runs: list[Caught]) -> Iterator[None]:
    """Note as the one of `runs` what the model catches meanwhile, where one of its functions has a statement that does.

    A debugger or a measurement of coverage sees nothing of what runs meanwhile.
    """
    found: Caught = {}
    runs[:] = [found]
    paths = {function.__code__.co_filename for function in functions if handles(function)}
    if not paths:
        yield
        return

    def of_frame(frame: FrameType, event: str, arg: Any) -> Callable[..., Any]:
        if (
            event == "exception"
            and not issubclass(kind := arg[0], OF_ITERATORS)
            and is_caught(kind, [(frame, frame.f_lineno)])
        ):
            key = (frame.f_code.co_filename, frame.f_lineno, kind.__name__)
            found.setdefault(key, place_of_stack([(frame, frame.f_lineno)]))
        return of_frame

    def of_call(frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        return of_frame if frame.f_code.co_filename in paths else None

    before = sys.gettrace()
    sys.settrace(of_call)
    try:
        yield
    finally:
        sys.settrace(before)
