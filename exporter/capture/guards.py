"""What became of dimensions that were asked to be dynamic: found by comparison, blamed on the line of the guard."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from diagnostics import Level, Log, Place, rules
from diagnostics.source import place_of_stack
from exporter.capture.shapes import Request
from exporter.options import Options
from fx_passes.program import Program
from fx_passes.sizes import Size, sizes_of

_ROOM = str(Path(__file__).parent)


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on sizes that the capture relies on: its text, the sizes ("L['x'].size()[0]") and its line."""

    condition: str
    sources: tuple[str, ...]
    place: Place | None


@contextmanager
def recorded_guards() -> Iterator[list[Guard]]:
    """Collects every guard that PyTorch adds meanwhile, with the user's line that was running.

    PyTorch's own trace of guards costs many times the capture; a guard is rare, so its stack may be looked at.
    """
    found: list[Guard] = []
    original = ShapeEnv._log_guard

    def log_guard(self: ShapeEnv, prefix: str, guard: Any, forcing_spec: bool) -> None:
        sources = tuple(str(source) for source, symbol in self.source_to_var.items() if symbol in guard.free_symbols)
        found.append(Guard(str(guard), sources, _running()))
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


def report_dimensions(
    program: Program, requests: Sequence[Request], guards: Sequence[Guard], options: Options, log: Log
) -> None:
    """Compares every requested dimension with what it became: a number, a narrower range, or another dimension."""
    sizes = {
        entry.path: sizes_of(node.meta["val"])
        for entry, node in zip(program.inputs, program.placeholders, strict=True)
        if isinstance(node.meta.get("val"), torch.Tensor)
    }
    names: dict[Size, Request] = {}
    for request in requests:
        if request.input not in sizes:
            continue
        size, dim = sizes[request.input][request.axis], request.name or str(request.axis)
        if isinstance(size, int):
            level = Level.WARNING if options.allow_specialization else None
            facts: dict[str, Any] = {"dim": dim, "input": request.input, "value": size}
            log.report(rules.DIMENSION_SPECIALIZED, at=_place(guards, request), level=level, **facts)
            continue
        narrowed = _narrowed(program.ranges.get(str(size), (0, None)), request)
        if narrowed is not None:
            facts = {"dim": dim, "input": request.input, "range": narrowed}
            log.report(rules.DIMENSION_RANGE_NARROWED, at=_place(guards, request), **facts)
        other = names.setdefault(size, request)
        if request.name != other.name and request.name and other.name:
            relation = f"{request.name} = {other.name}"
            facts = {"dim": dim, "other": other.name, "relation": relation}
            log.report(rules.DIMENSIONS_TIED, at=_place(guards, request) or _place(guards, other), **facts)


def _narrowed(found: tuple[int, int | None], request: Request) -> str | None:
    """The range in words, if it is narrower than what was asked for. A lower bound of 2 is how PyTorch traces."""
    (low, high), (wanted_low, wanted_high) = found, request.bounds
    at_least = low > max(wanted_low, 2)
    at_most = high is not None and (wanted_high is None or high < wanted_high)
    parts = [f"at least {low}"] * at_least + [f"at most {high}"] * at_most
    return " and ".join(parts) or None


def _place(guards: Sequence[Guard], request: Request) -> Place | None:
    """The line of the last guard that spoke about this size of this input."""
    head, *rest = request.input.split(".")
    for guard in reversed(guards):
        for source in guard.sources:
            if source.startswith(f"L['{head}']") and source.endswith(f".size()[{request.axis}]"):
                inner = source.removeprefix(f"L['{head}']").removesuffix(f".size()[{request.axis}]")
                if all(part in inner for part in rest):
                    return guard.place
    return None
