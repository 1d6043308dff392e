"""What became of dimensions that were asked to be dynamic: found by comparison, blamed on the line of the guard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch

from diagnostics import Level, Log, Place, rules
from exporter.capture.conditions import Narrowing
from exporter.capture.guards import Guard
from exporter.capture.shapes import Request
from exporter.options import Options
from fx_passes.program import Program
from fx_passes.sizes import Size, sizes_of


def lost(
    program: Program, requests: Sequence[Request], guards: Sequence[Guard], narrowings: Sequence[Narrowing]
) -> list[tuple[Request, Guard | None]]:
    """The requested dimensions that became constants or nearly so, each with the guard that is to blame."""
    pinned = {each.symbol: each.condition.guard for each in narrowings if each.pinned}
    return [
        (request, pinned.get(str(size)) if isinstance(size, sympy.Basic) else _guard(guards, request))
        for request, size in _became(program, requests)
        if isinstance(size, int) or str(size) in pinned
    ]


def _became(program: Program, requests: Sequence[Request]) -> list[tuple[Request, Size]]:
    sizes = {
        entry.path: sizes_of(node.meta["val"])
        for entry, node in zip(program.inputs, program.placeholders, strict=True)
        if isinstance(node.meta.get("val"), torch.Tensor)
    }
    return [(each, sizes[each.input][each.axis]) for each in requests if each.input in sizes]


def report_dimensions(
    program: Program,
    requests: Sequence[Request],
    guards: Sequence[Guard],
    narrowings: Sequence[Narrowing],
    options: Options,
    log: Log,
) -> None:
    """Compares every requested dimension with what it became: a number, a narrower range, or another dimension."""
    fixed = Level.WARNING if options.allow_specialization else None
    by_symbol: Mapping[str, Narrowing] = {each.symbol: each for each in narrowings}
    names: dict[Size, Request] = {}
    for request, size in _became(program, requests):
        dim = request.name or str(request.axis)
        facts: dict[str, Any] = {"dim": dim, "input": request.input}
        if isinstance(size, int):
            log.report(rules.DIMENSION_SPECIALIZED, at=_place(guards, request), level=fixed, **facts, value=size)
            continue
        held = by_symbol.get(str(size))
        if held is not None:
            place = held.condition.guard.place
            if held.pinned:
                log.report(rules.DIMENSION_SPECIALIZED, at=place, level=fixed, **facts, value=held.allowed)
            else:
                log.report(rules.DIMENSION_RANGE_NARROWED, at=place, **facts, range=held.allowed)
        narrowed = _narrowed(program.ranges.get(str(size), (0, None)), request)
        if narrowed is not None:
            log.report(rules.DIMENSION_RANGE_NARROWED, at=_place(guards, request), **facts, range=narrowed)
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
    guard = _guard(guards, request)
    return guard.place if guard is not None else None


def _guard(guards: Sequence[Guard], request: Request) -> Guard | None:
    """The last guard that spoke about this size of this input."""
    head, *rest = request.input.split(".")
    for guard in reversed(guards):
        for source in guard.sources:
            if source.startswith(f"L['{head}']") and source.endswith(f".size()[{request.axis}]"):
                inner = source.removeprefix(f"L['{head}']").removesuffix(f".size()[{request.axis}]")
                if all(part in inner for part in rest):
                    return guard
    return None
