"""Result of one capture, and its check beside the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy

from fxport.diagnostics import Finding, Level, Log, Place
from fxport.exporter.capture.guards.handlers import catches
from fxport.exporter.capture.request import CaptureRequest
from fxport.exporter.capture.self_check.assumed import assumptions
from fxport.exporter.capture.self_check.checking import Subject, check, check_inputs, told_in
from fxport.exporter.capture.self_check.inputs import Sizes
from fxport.exporter.capture.self_check.state import with_weight_of_state
from fxport.exporter.capture.sizes.dimensions import Comparison
from fxport.exporter.capture.sizes.rehearsal import same_results
from fxport.exporter.capture.sizes.resizing import broken_conditions, known_sizes, takes
from fxport.exporter.capture.snapshot import Snapshot
from fxport.exporter.pipeline.options import Options
from fxport.fx_passes.program import Program

NOT_EQUAL = "it could not be shown to be equal to the model on your example"


@dataclass(frozen=True)
class CaptureResult:
    """One capture.

    Attributes:
        program: The captured program.
        request: What it was captured for, with all sizes that attempts have found to be constants.
        compared: What became of the sizes that were asked to be dynamic.
        log: What is to be reported about it if it is the one that is used.
        rewritten: The lines that were rewritten, or where something was presumed.
    """

    program: Program
    request: CaptureRequest
    compared: Comparison
    log: Log
    rewritten: Sequence[Place | None]


def repeat(told: Iterable[Finding], log: Log) -> list[Finding]:
    """Report in a log what has been reported in another one; return the findings as this log has them."""
    repeated: list[Finding] = []
    for finding in told:
        facts: Mapping[str, Any] = finding.facts
        repeated.append(log.report(finding.rule, at=finding.place, level=finding.level, fixes=finding.fixes, **facts))
    return repeated


def told_of_sizes(result: CaptureResult, options: Options) -> Sequence[Finding]:
    """Return the findings about the sizes of a capture."""
    log = Log()
    result.compared.report(options, log)
    return log.findings


def checked_result(
    result: CaptureResult,
    log: Log,
    *,
    passed: tuple[Any, Any],
    example: tuple[Any, Any],
    options: Options,
    beyond: Sequence[Sizes] = (),
    others: Sequence[Sizes] = (),
) -> Program:
    """Report what is to be told of a capture, and run it beside the model; return it with its conditions.

    Args:
        result: The capture.
        log: Gets the findings.
        passed: The arguments as they were passed.
        example: The same, with a copy for each tensor that is passed twice.
        options: How far it is to be checked.
        beyond: Sizes at which it is to be checked, too.
        others: Sizes at which it is to be checked until all bodies of control flow have run.
    """
    module, found = result.request.model, result.log.findings
    if options.self_check != "never":
        found = with_weight_of_state(found, module, example, result.program)
    own = [*found, *told_of_sizes(result, options)]  # a log may hold those of other exports
    pairs = zip(own, repeat(own, log), strict=True)
    ends = any(each.level is shown.level is Level.ERROR for each, shown in pairs)  # a log may have levels of its own
    captured = replace(result.program, conditions=tuple(result.compared.conditions))
    if options.self_check == "never":
        return captured
    subject = Subject(captured, module, passed, result.rewritten, result.compared.owner, beyond=beyond, others=others)
    check_inputs(subject, example, log)
    if ends:
        return captured  # nothing is exported
    if options.self_check == "rewritten" and not (result.rewritten or beyond):
        return captured
    subject = replace(subject, call=example, told=told_in([*result.log.findings, *own]))
    subject = replace(subject, assumed=assumptions(own))
    return replace(captured, conditions=(*captured.conditions, *check(subject, log)))


def unlike_at_example(found: CaptureResult, request: CaptureRequest) -> str | None:
    """Return why a program that was captured at another size is none for the example; None if it is one.

    A model that treats the example's size apart may do something else there than in general. Where the conditions of
    the capture leave that size out, both are run and compared.
    """
    example = (request.args, dict(request.kwargs))
    program = replace(found.program, conditions=tuple(found.compared.conditions))
    if not takes(request.model, example, program):
        return NOT_EQUAL
    sizes = known_sizes(request.model, example, program)
    broken = [each for each in program.conditions if not each.allows(sizes)]
    if not all(isinstance(test, sympy.Ne) for test in broken_conditions(request.model, example, program)):
        words = "; ".join(each.words for each in broken)
        return f"it is right where {words}, unlike your example: with an example of such sizes they stay dynamic"
    goes_on = any(map(catches, Snapshot.of({"model": request.model}).functions()))  # behind an error of the other size
    return None if not (broken or goes_on) or same_results(request.model, example, program) else NOT_EQUAL
