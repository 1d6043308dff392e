"""Guards: the conditions on sizes under which a capture holds, each with the line that asked for it."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from diagnostics import Place
from diagnostics.source import place_of_stack

_ROOM = str(Path(__file__).parent)
_TORCH = str(Path(torch.__file__).parent)
_SYMBOLS = tuple(
    str(Path(_TORCH, *parts))
    for parts in (
        ("__init__.py",),
        ("fx", "experimental", "symbolic_shapes.py"),
        ("fx", "experimental", "sym_node.py"),
        ("fx", "experimental", "recording.py"),
    )
)
"""Where a symbolic number's `bool`, `int` and comparisons are."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on sizes that the capture relies on: its text, the sizes ("L['x'].size()[0]") and its line."""

    condition: str
    sources: tuple[str, ...]
    place: Place | None
    expr: sympy.Basic
    env: ShapeEnv
    asked: bool
    """Whether the model's own Python code asked, and took the one way; else an operator did, for its shapes."""
    counted: bool
    """Whether it comes from making a Python number of a size, as `range(n)` and `int(n)` do."""


@contextmanager
def recorded_guards() -> Iterator[list[Guard]]:
    """Collects every guard that PyTorch adds meanwhile, with the user's line that was running.

    PyTorch's own trace of guards costs many times the capture; a guard is rare, so its stack may be looked at.
    """
    found: list[Guard] = []
    original = ShapeEnv._log_guard

    def log_guard(self: ShapeEnv, prefix: str, guard: Any, forcing_spec: bool) -> None:
        sources = tuple(str(source) for source, symbol in self.source_to_var.items() if symbol in guard.free_symbols)
        found.append(Guard(str(guard), sources, _running(), guard, self, *_question()))
        original(self, prefix, guard, forcing_spec)

    ShapeEnv._log_guard = log_guard  # type: ignore[method-assign]  # put back below
    try:
        yield found
    finally:
        ShapeEnv._log_guard = original  # type: ignore[method-assign]


def _running() -> Place | None:
    """The line that is running, from forward on: who called export is no cause."""
    walked = traceback.walk_stack(sys._getframe(2))
    return place_of_stack(takewhile(lambda entry: not entry[0].f_code.co_filename.startswith(_ROOM), walked))


def _question() -> tuple[bool, bool]:
    """Who wants to know a symbolic number's value: `Guard.asked` and `Guard.counted`."""
    counted = False
    for frame, _ in traceback.walk_stack(sys._getframe(2)):
        code = frame.f_code
        if not code.co_filename.endswith(_SYMBOLS):
            return not code.co_filename.startswith(_TORCH), counted
        counted |= code.co_name == "guard_int"
    return False, counted
