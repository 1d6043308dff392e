"""A capture in which branches on sizes are part of the graph, where they would limit the sizes of the first one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from fxport.diagnostics import Finding, Level, Log, Rule, rules
from fxport.exporter.capture.arguments.inputs import arguments_of, leaves_of
from fxport.exporter.capture.faults import is_our_fault
from fxport.exporter.capture.overcome import raises_by_one_test
from fxport.exporter.capture.request import CaptureRequest
from fxport.exporter.capture.results import CaptureResult
from fxport.exporter.capture.self_check.assumed import is_presumption
from fxport.exporter.capture.self_check.containers import replaces_in_containers
from fxport.exporter.capture.sizes.as_data import at_most
from fxport.exporter.capture.sizes.shapes import Request
from fxport.fx_passes.program import Program

SECONDS = 60.0
"""Of this thread's own time, for the capture: algebra of many sizes that depend on each other takes PyTorch minutes."""

STEPS = (1, 2, 3, -1, -2, -3)
"""Differences from the example's sizes at which a capture is checked."""


def with_branches_on_sizes(
    limited: CaptureResult,
    again: Callable[[CaptureRequest], CaptureResult],
    told: Callable[[CaptureResult], Sequence[Finding]],
    checked: Callable[..., Program],
) -> tuple[Program, Log] | None:
    """Capture again with the sizes as data of which branches ask, and return the program with its findings.

    None where no such branch limits a size, where it cannot be an operator, where it brings warnings that the first
    capture does not, and where the check beside the model, also at sizes on the other side of each limit, does not find
    them equal.

    Args:
        limited: The first capture.
        again: Captures.
        told: Returns the findings about the sizes of a capture.
        checked: Checks a capture, and reports its findings to a log.
    """
    request = limited.request
    decided, together = limited.compared.decided, list[Request]()
    beyond = [*limited.compared.beyond]
    found: CaptureResult | None = None
    while (grown := _together(request, [*together, *decided])) != together:  # a branch on one size may hide others
        together = grown
        if not request.rewrite or not all(_may_be_data(request, each) for each in together):
            return None
        if found is None and (_stands(limited, together) or (beyond and _is_found_unlike(limited))):
            return None
        try:
            with at_most(SECONDS):
                found = again(replace(request, as_data=together))
        except Exception as error:  # the first capture stands
            if is_our_fault(error):
                raise
            return None
        decided = found.compared.decided
        beyond += found.compared.beyond
    if found is None:
        return None
    if any(each in together for said in found.compared.said for each in said.about):
        return None
    before = {*_warnings(limited.log.findings), rules.BRANCH_UNCHECKED}  # of a way that no size may take
    if not _warnings(told(found)) <= before:  # before the model runs, which may take long
        return None
    log = Log()
    program = checked(found, log, beyond=beyond, others=[*_others(together)])
    return (program, log) if _warnings(log.findings) <= before else None


def _stands(limited: CaptureResult, together: Sequence[Request]) -> bool:
    """Return whether one of the limits would stand in any capture: the model raises an error beyond it."""
    limits = (each for each in limited.compared.said if all(size in together for size in each.about))
    asked = (each.place for each in limits if each.guard is not None and each.guard.by_user and not each.guard.counted)
    return any(place is not None and raises_by_one_test(place) for place in asked)


def _is_found_unlike(limited: CaptureResult) -> bool:
    """Return whether the check of any capture finds it unlike the model, so that there is no use in another one."""
    presumed = any(map(is_presumption, limited.log.findings))  # a difference may then be told as one of these
    call = limited.request.args, dict(limited.request.kwargs)
    return not presumed and replaces_in_containers(limited.request.model, call)


def _together(request: CaptureRequest, decided: Iterable[Request]) -> list[Request]:
    """Return the sizes that are asked for and decided by branches, with those of the same names."""
    sizes = [each for each in decided if each.required and _may_be_data(request, each)]
    names = {each.name for each in sizes if each.name}
    return [each for each in request.sizes if each in sizes or each.name in names]


def _warnings(found: Iterable[Finding]) -> set[Rule]:
    """Return the rules of findings that are more than notes."""
    return {each.rule for each in found if each.level is not Level.NOTE}


def _may_be_data(request: CaptureRequest, size: Request) -> bool:
    """Return whether an axis may have a size that only a run tells: that of a tensor that lies in memory as it is."""
    leaves = leaves_of(arguments_of(request.model, request.args, request.kwargs))
    value: Any = next((leaf.value for leaf in leaves if leaf.path == size.input), None)
    is_tensor = isinstance(value, torch.Tensor) and size.axis is not None and size.derived is None
    return is_tensor and value.is_contiguous() and not value.requires_grad


def _others(sizes: Sequence[Request]) -> Iterator[dict[Request, int]]:
    """Yield further sizes: each once larger than the others, equal ones, and those near the example's."""
    numbers = [each.size or 0 for each in sizes]
    for shift in range(1, len(sizes)):
        yield dict(zip(sizes, numbers[shift:] + numbers[:shift], strict=True))
        yield {each: size + (i + shift) % len(sizes) for i, (each, size) in enumerate(zip(sizes, numbers, strict=True))}
    for size in (min(numbers), max(numbers)):
        yield dict.fromkeys(sizes, size)
    for step in STEPS:
        yield {each: max(size + step, 1) for each, size in zip(sizes, numbers, strict=True)}
