"""Reads of the process by `forward` while it is captured: clocks, environment variables, randomness, modes of PyTorch.

The graph has what these gave in that one run.
"""

from __future__ import annotations

import datetime
import os
import secrets
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any
from unittest import mock

import torch

from fxport.diagnostics import Place
from fxport.diagnostics.source import USER, kind_of, place_of_stack
from fxport.exporter.capture.patches.users_modules import users_modules

CLOCKS = (
    *("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns"),
    *("process_time", "process_time_ns", "thread_time", "localtime", "gmtime", "ctime", "strftime"),
)
"""Functions of Python's `time`."""

DATES: Mapping[type, tuple[str, ...]] = {datetime.datetime: ("now", "utcnow", "today"), datetime.date: ("today",)}
"""Classes of Python's `datetime`, with their methods that look at the clock."""

OTHERS: Mapping[Any, tuple[str, ...]] = {
    torch: ("is_grad_enabled", "is_inference_mode_enabled"),
    torch.compiler: ("is_compiling", "is_exporting"),
    os: ("urandom",),
    uuid: ("uuid1", "uuid4"),
    secrets: ("choice", "randbelow", "randbits", "token_bytes", "token_hex", "token_urlsafe"),
}
"""Functions that tell the mode in which PyTorch is called, which a capture changes, or draw true randomness."""

_BETWEEN = frozenset(function.__code__.co_filename for function in (os.getenv, Mapping.get))
"""Files in which `os.getenv` and `os.environ.get` read a variable for their caller."""

Reads = dict[tuple[str, str, int], Place | None]
"""The places of what was read, by its name and the file and the line that read it."""


@contextmanager
def environment_watched() -> Iterator[Reads]:
    """Note what the user's own lines read, also by a name that they have imported.

    Threads that ran before are no part of `forward`: a progress bar, say.
    """
    found: Reads = {}
    before = {*threading.enumerate()} - {threading.current_thread()}
    variable = type(os.environ).__getitem__

    def note(name: str) -> None:
        frame: Any = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename in _BETWEEN:
            frame = frame.f_back
        if frame is None or kind_of(frame.f_code.co_filename) != USER or threading.current_thread() in before:
            return
        at = (name, frame.f_code.co_filename, frame.f_lineno)
        found.setdefault(at, place_of_stack(list(traceback.walk_stack(frame))))

    def looked_up(environment: Any, key: str) -> str:
        note(f"os.environ['{key}']")
        return variable(environment, key)

    clocks = {getattr(time, name): _noting(f"time.{name}", getattr(time, name), note) for name in CLOCKS}
    others = {
        getattr(owner, name): _noting(f"{owner.__name__}.{name}", getattr(owner, name), note)
        for owner, names in OTHERS.items()
        for name in names
    }
    dates = {kind: _noting_date(kind, names, note) for kind, names in DATES.items()}
    owners = (time, datetime, *OTHERS, *users_modules().values())
    with (
        _replaced(owners, {**clocks, **dates, **others}),
        mock.patch.object(type(os.environ), "__getitem__", looked_up),
    ):
        yield found


def _noting(name: str, function: Callable[..., Any], note: Callable[[str], None]) -> Callable[..., Any]:
    def read(*args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_dynamo_compiling():  # which reads these functions, and looks at no frames
            note(name)
        return function(*args, **kwargs)

    return read


def _noting_date(kind: Any, names: tuple[str, ...], note: Callable[[str], None]) -> type:
    """Make a class like `kind` that notes reads: its instances are of `kind`, and those of `kind` are its own."""

    class Standing(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, kind)

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return kind(*args, **kwargs)

    def looking(name: str) -> classmethod[Any, Any, Any]:
        def look(cls: type, *args: Any, **kwargs: Any) -> Any:
            note(f"{kind.__module__}.{kind.__name__}.{name}")
            return getattr(kind, name)(*args, **kwargs)

        return classmethod(look)

    return Standing(kind.__name__, (kind,), {name: looking(name) for name in names})


@contextmanager
def _replaced(owners: Iterable[ModuleType], others: Mapping[Any, Any]) -> Iterator[None]:
    """Replace one of these objects by another under whatever name a module has it."""
    kinds = (type, BuiltinFunctionType, FunctionType, MethodType)
    changed: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for variables in map(vars, owners):
        before = {name: value for name, value in variables.items() if isinstance(value, kinds) and value in others}
        if before:
            variables.update({name: others[value] for name, value in before.items()})
            changed.append((variables, before))
    try:
        yield
    finally:
        for variables, before in changed:
            variables.update(before)
