"""Validation: what eager PyTorch gives, against the file in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from diagnostics import Log, Stop, rules
from diagnostics.messages import error_line
from diagnostics.source import place_of_exception
from exporter.cli.attribution import Attribution, Subject, explainer
from exporter.cli.source import Source
from exporter.cli.usage import UsageError, did_you_mean

if TYPE_CHECKING:
    from exporter import OnnxProgram, Options
    from ort_runner import Samples, Validation


@dataclass(frozen=True, slots=True)
class Tolerances:
    """What replaces the error budget: |got - want| <= atol + rtol * |want|. With neither, the budget holds."""

    atol: float | None = None
    rtol: float | None = None


def require_provider(name: str) -> None:
    """Refuse a provider that fxport has no row for."""
    from ort_runner.providers import AUTO, PROVIDERS

    if name not in (AUTO, *PROVIDERS):
        raise UsageError(f"--provider '{name}' is unknown. {did_you_mean(name, (AUTO, *PROVIDERS))}")


def ignore(found: Attribution) -> None:
    """Does nothing with the origin of a difference, which the finding tells anyway."""


def validation_of(
    path: Path,
    source: Source,
    program: OnnxProgram,
    provider: str,
    log: Log,
    adapt: Callable[[Samples], Samples] = lambda samples: samples,
    *,
    tolerances: Tolerances = Tolerances(),
    isolate: bool = True,
    options: Options | None = None,
    told: Callable[[Attribution], None] = ignore,
    hard: bool = False,
) -> Validation | None:
    """Run the file and compare. Errors are in the log; None where there was nothing to compare with.

    With the `options` of the export, the origin of a difference is looked for, and `told` is given it: not where the
    program's weights are elsewhere, as those of a sharded model that one process has no room for. With `hard`, zeros,
    NaN and the like are tried as well.
    """
    from ort_runner import validate

    validation: Validation | None = None
    try:
        with log.stage("reference"):
            cases = samples_of(source, program, log, hard=hard)
            samples = [adapt(each) for each in cases]
        with log.stage("validate"):
            if samples:
                atol, rtol = tolerances.atol, tolerances.rtol
                explain = None
                if options is not None and not program.program.sources:
                    alone = source if source.whole is None else replace(source, model=source.whole)
                    subject = Subject(path, alone, program, options, provider, isolate)
                    explain = explainer(subject, cases, adapt, told)
                validation = validate(
                    path, samples, provider, log, isolate=isolate, atol=atol, rtol=rtol, explain=explain
                )
    except Stop:
        return validation  # its findings are in the log, the file is there: the summary is still wanted
    return validation


def samples_of(source: Source, program: OnnxProgram, log: Log, *, hard: bool = False) -> list[Samples]:
    """The runs of eager PyTorch. Where the model does not run there, that is a finding and there are none."""
    from exporter import reference
    from exporter.capture.eager import FailsOnRanks, failure_in_eager
    from ort_runner import Samples

    args = source.args or ()
    try:
        cases = list(
            reference.cases(
                source.model,
                args,
                source.kwargs,
                program,
                log,
                hard=hard,
                label=source.label,
                further=source.further,
                whole=source.whole,
            )
        )
    except Exception as raised:
        spread = isinstance(raised, FailsOnRanks)
        error = raised.__cause__ if spread else failure_in_eager(source.model, args, source.kwargs)
        if error is None:
            raise
        reason = f"eager PyTorch raises {error_line(error)}"
        log.report(rules.VALIDATION_SKIPPED, at=place_of_exception(error), reason=reason)
        return []
    return [Samples(case.label, case.inputs, case.outputs, case.exact, case.draws) for case in cases]
