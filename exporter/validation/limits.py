"""Limits of dimensions (FXP2002) put to the test: the model at sizes that they exclude, in PyTorch and in the file.

A limit is what PyTorch assumed while it traced, and the graph may hold without it. Where the file gives what PyTorch
gives at all sizes that a limit excludes, the warning is withdrawn. Where it gives something else, or fails, while
PyTorch runs, the warning is an error that says which of the two it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics import Finding, Level, Log, Rule, rules
from fxport.exporter.validation import reference
from fxport.exporter.validation.sizes import Beyond

if TYPE_CHECKING:
    from fxport.exporter.onnx_program import OnnxProgram
    from fxport.exporter.sources.source import Source
    from fxport.ort_runner import Samples, Validation


WRONG = "the ONNX model is wrong"

VERDICTS: Mapping[Rule, str] = {
    rules.CONTRACT_BROKEN: "the ONNX model has other sizes than it declares",
    rules.RUNTIME_FAILED: "ONNX Runtime does not run the ONNX model",
}
"""Statement about the file by the rule of an error, the gravest first; all other rules say that it is wrong."""


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
            errors = [each for each in said.findings if each.level is Level.ERROR]
            log.revise(partial(_refuted, limit, _gravest(errors, samples[0].label)))
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


def _gravest(errors: Sequence[Finding], label: str) -> str:
    """The gravest error with the size at which it was found; without a size of its own, with this one."""
    order = [WRONG, *VERDICTS.values()]
    error = min(errors, key=lambda each: order.index(VERDICTS.get(each.rule, WRONG)), default=None)
    if error is None:
        return f"At {label}, which PyTorch takes, the ONNX model did not run."
    verdict = VERDICTS.get(error.rule, WRONG)
    return f"At {error.facts.get('sample', label)}, which PyTorch takes, {verdict}: {error.message}"


def _refuted(limit: Beyond, detail: str, findings: Sequence[Finding]) -> Sequence[Finding]:
    """The warning as an error, with what was found of the file."""
    return [
        replace(each, level=Level.ERROR, message=f"{each.message} {detail}") if limit.is_about(each) else each
        for each in findings
    ]
