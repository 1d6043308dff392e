"""Limits of dimensions (FXP2002) put to the test: the model at sizes that they exclude, in PyTorch and in the file.

A limit is what PyTorch assumed while it traced, and the graph may hold without it. Where the file gives what PyTorch
gives at all sizes that a limit excludes, the warning is withdrawn. Where it gives something else, or fails, while
PyTorch runs, the warning is an error: nothing in the file would refuse that size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics import Finding, Level, Log
from fxport.exporter.validation import reference
from fxport.exporter.validation.sizes import Beyond

if TYPE_CHECKING:
    from fxport.exporter.onnx_program import OnnxProgram
    from fxport.exporter.sources.source import Source
    from fxport.ort_runner import Samples, Validation


@dataclass(frozen=True, slots=True)
class Subject:
    """A file that has passed its validation: what it was made from, and how it is run and judged."""

    path: Path
    source: Source
    program: OnnxProgram
    provider: str
    isolate: bool
    atol: float | None
    rtol: float | None
    adapt: Callable[[Samples], Samples]


def checked_limits(subject: Subject, validation: Validation, log: Log) -> Validation:
    """Run the file at the sizes that limits exclude; returns the validation with what became of them."""
    from fxport.ort_runner import validate

    source = subject.source
    for limit, cases in reference.cases_beyond(source.model, source.args or (), source.kwargs, subject.program):
        samples = [subject.adapt(each.samples()) for each in cases]
        samples = [each for each in samples if reference.tells(each)]
        if not samples:
            continue
        said = Log()
        found = validate(
            subject.path,
            samples,
            subject.provider,
            said,
            isolate=subject.isolate,
            atol=subject.atol,
            rtol=subject.rtol,
        )
        if not found.passed:
            wrong = next((each.label for each in found.samples if not each.passed), samples[0].label)
            errors = [each.message for each in said.findings if each.level is Level.ERROR]
            log.revise(partial(_refuted, limit, wrong, errors[0] if errors else "it did not run"))
        elif limit.is_all and len(samples) == len(limit.calls) and found.equal:
            log.revise(partial(_withdrawn, limit))
        elif found.equal:
            log.revise(partial(_also_right, limit, [each.label for each in found.samples]))
        validation = replace(
            validation,
            samples=(*validation.samples, *found.samples),
            seconds=validation.seconds + found.seconds,
            passed=validation.passed and found.passed,
        )
    return validation


def _withdrawn(limit: Beyond, findings: Sequence[Finding]) -> Sequence[Finding]:
    return [each for each in findings if not limit.is_about(each)]


def _also_right(limit: Beyond, labels: Sequence[str], findings: Sequence[Finding]) -> Sequence[Finding]:
    """The warning with the sizes beyond the limit at which the file gave what PyTorch gives."""
    sizes = ", ".join(dict.fromkeys(label.partition(",")[0] for label in labels))
    detail = f"Beyond these, the validation found it right at {sizes}."
    return [replace(each, message=f"{each.message} {detail}") if limit.is_about(each) else each for each in findings]


def _refuted(limit: Beyond, label: str, error: str, findings: Sequence[Finding]) -> Sequence[Finding]:
    """The warning as an error, with the size at which the file is wrong."""
    detail = f"At {label}, which PyTorch takes, the ONNX model is wrong: {error}"
    return [
        replace(each, level=Level.ERROR, message=f"{each.message} {detail}") if limit.is_about(each) else each
        for each in findings
    ]
