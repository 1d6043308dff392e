"""Reads of the process by `forward` while it is captured: clocks, environment variables, files, randomness, modes.

The graph has what these gave in that one run.
"""

from __future__ import annotations

import builtins
import contextlib
import datetime
import glob
import io
import os
import pathlib
import random
import secrets
import sys
import tempfile
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from types import FunctionType, MethodType, ModuleType
from typing import Any
from unittest import mock

import torch
import torch._dynamo
import torch._utils

from fxport.diagnostics import Place
from fxport.diagnostics.source import USER, kind_of, place_of_stack
from fxport.exporter.capture.guards.instructions import places_of
from fxport.exporter.capture.patches.users_modules import users_modules

CLOCKS = (
    *("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns"),
    *("process_time", "process_time_ns", "thread_time", "localtime", "gmtime", "ctime", "strftime"),
)
"""Functions of Python's `time`."""

DATES: Mapping[type, tuple[str, ...]] = {datetime.datetime: ("now", "utcnow", "today"), datetime.date: ("today",)}
"""Classes of Python's `datetime`, with their methods that look at the clock."""

OTHERS: Mapping[Any, tuple[str, ...]] = {
    torch: ("is_grad_enabled", "is_inference_mode_enabled", "initial_seed", "get_num_threads"),
    torch.compiler: ("is_compiling", "is_exporting"),
    torch._dynamo: ("is_compiling",),
    torch._utils: ("is_compiling",),
    builtins: ("input", "open"),
    os: ("cpu_count", "getpid", "listdir", "scandir", "urandom"),
    os.path: ("exists", "getmtime", "getsize", "isdir", "isfile"),
    uuid: ("uuid1", "uuid4"),
    secrets: ("choice", "randbelow", "randbits", "token_bytes", "token_hex", "token_urlsafe"),
}
"""Functions that tell of the machine, its files, or the mode in which PyTorch is called, or draw true randomness."""

OF_LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "transformers.utils.import_utils": ("is_torchdynamo_compiling", "is_torchdynamo_exporting", "is_tracing"),
}
"""Functions of libraries, by their modules, that tell a model of the user's in which mode PyTorch is called."""

OF_A_TRACE = frozenset(
    {"SymInt", "SymFloat", "SymBool", "FakeTensor", "FunctionalTensor", "fake_mode", "detect_fake_mode"}
    | {"get_proxy_mode", "is_fx_tracing", "is_fx_symbolic_tracing"}
)
"""Names of what a trace alone has: code that speaks of it can tell that it is traced."""

SEEDING = ("manual_seed", "seed", "set_rng_state")
"""Functions of PyTorch that say which random numbers come next."""

BETWEEN = (contextlib, glob, io, pathlib, random, secrets, tempfile, torch.random, uuid)
"""Modules of Python and PyTorch that read for their caller, and have some of these functions by names of their own."""

_BETWEEN = frozenset(
    {function.__code__.co_filename for function in (os.getenv, Mapping.get)} | {module.__file__ for module in BETWEEN}
)
"""Files in which something is read for a caller."""


@dataclass(frozen=True, slots=True)
class Reads:
    """Reads and seeds of the process by `forward`.

    Attributes:
        places: The places of what was read, by its name and the file and the line that read it.
        seeded: The places at which PyTorch's generator was given a seed or a state.
        names: What was read or seeded, each time.
    """

    places: dict[tuple[str, str, int], Place | None] = field(default_factory=dict)
    seeded: dict[tuple[str, str, int], Place | None] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def note(self, name: str, frame: Any, *, is_seed: bool = False) -> None:
        """Note a read or a seed by the user's own line, perhaps through Python's library."""
        while frame is not None and frame.f_code.co_filename in _BETWEEN:
            frame = frame.f_back
        if frame is None or kind_of(frame.f_code.co_filename) != USER:
            return
        self.names.append(name)
        at = (name, frame.f_code.co_filename, frame.f_lineno)
        places = self.seeded if is_seed else self.places
        places.setdefault(at, place_of_stack(list(traceback.walk_stack(frame))))

    def note_names(self, functions: Iterable[FunctionType]) -> None:
        """Note the lines of the user's that speak of what a trace alone has."""
        for code in (each.__code__ for each in functions if kind_of(each.__code__.co_filename) == USER):
            for step, place in places_of(code, lambda step, _: step.argval in OF_A_TRACE):
                self.places.setdefault((step.argval, place.path, place.line), place)


@contextmanager
def environment_watched(found: Reads) -> Iterator[None]:
    """Note what the user's own lines read, also by a name that they have imported, or through Python's library.

    Threads that ran before are no part of `forward`: a progress bar, say.
    """
    before = {*threading.enumerate()} - {threading.current_thread()}
    variable = type(os.environ).__getitem__

    def note(name: str, *, is_seed: bool = False) -> None:
        if threading.current_thread() not in before:
            found.note(name, sys._getframe(2), is_seed=is_seed)

    def looked_up(environment: Any, key: str) -> str:
        note(f"os.environ['{key}']")
        return variable(environment, key)

    def seeded(generator: random.Random, a: Any = None, *args: Any, **kwargs: Any) -> None:
        if a is None:
            note("random.Random")
        seed(generator, a, *args, **kwargs)

    seed = random.Random.seed
    clocks = {getattr(time, name): _noting(f"time.{name}", getattr(time, name), note) for name in CLOCKS}
    loaded = {sys.modules[name]: functions for name, functions in OF_LIBRARIES.items() if name in sys.modules}
    others = {
        getattr(owner, name): _noting(_named(owner, name), getattr(owner, name), note)
        for owner, names in (*OTHERS.items(), *loaded.items())
        for name in names
        if owner not in loaded or hasattr(owner, name)  # it depends on the library's version
    }
    dates = {kind: _noting_date(kind, names, note) for kind, names in DATES.items()}
    seeds = {
        getattr(owner, name): _noting(name, getattr(owner, name), partial(note, is_seed=True))
        for owner in (torch, torch.random)  # Dynamo replaces some of them in one of the two
        for name in SEEDING
    }
    owners = (time, datetime, *OTHERS, *BETWEEN, *users_modules().values())
    with (
        replaced_everywhere(owners, {**clocks, **dates, **others, **seeds}),
        mock.patch.object(type(os.environ), "__getitem__", looked_up),
        mock.patch.object(random.Random, "seed", seeded),
        mock.patch.object(torch.jit.ScriptFunction, "__call__", _by_script(torch.jit.ScriptFunction.__call__)),
    ):
        yield


def _by_script(call: Callable[..., Any]) -> Callable[..., Any]:
    """Make the call of a scripted function: what C++ reads for it, such as `is_exporting`, it reads from this frame."""
    return lambda *args, **kwargs: call(*args, **kwargs)


def _named(owner: Any, name: str) -> str:
    """Return a function of a module as people write it."""
    prefix = {builtins: "", os.path: "os.path."}.get(owner, f"{owner.__name__}.")
    return f"{prefix}{name}"


_noting_one = threading.local()
"""Has `runs` in a thread in which one of these functions runs: what it calls in turn is its own."""


def _noting(name: str, function: Callable[..., Any], note: Callable[[str], None]) -> Callable[..., Any]:
    def read(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():  # which reads these functions, and looks at no frames
            return function(*args, **kwargs)
        caller = sys._getframe(1).f_code.co_filename
        if kind_of(caller) != USER and caller not in _BETWEEN:  # PyTorch's own questions, many for each op
            return function(*args, **kwargs)
        before = getattr(_noting_one, "runs", False)
        if not before and not (name == "open" and _only_writes(*args, **kwargs)):
            note(name)
        _noting_one.runs = True
        try:
            return function(*args, **kwargs)
        finally:
            _noting_one.runs = before

    return read


def _only_writes(*args: Any, mode: str = "r", **_: Any) -> bool:
    """Return whether a call of `open` is of a file to which it only writes."""
    mode = args[1] if len(args) > 1 else mode
    return isinstance(mode, str) and not {"r", "+"} & {*mode}


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
def replaced_everywhere(owners: Iterable[ModuleType], others: Mapping[Any, Any]) -> Iterator[None]:
    """Replace one of these objects by another under whatever name a module has it."""
    known = frozenset(map(id, others))
    has_methods = any(type(each) is MethodType for each in others)
    changed: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for variables in map(vars, owners):
        values = variables.values()
        before: dict[str, Any] = {}
        if not known.isdisjoint(map(id, values)):  # nearly all have none, and this is found in no time
            before = dict(compress(variables.items(), map(known.__contains__, map(id, values))))
        if has_methods and MethodType in map(type, values):  # each look at one makes another
            methods = {name: value for name, value in variables.items() if type(value) is MethodType}
            before |= {name: value for name, value in methods.items() if value in others}
        if before:
            variables.update({name: others[value] for name, value in before.items()})
            changed.append((variables, before))
    try:
        yield
    finally:
        for variables, before in changed:
            variables.update(before)
