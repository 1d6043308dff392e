"""Validation: what eager PyTorch gives, against the file in ONNX Runtime."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics import Log, Stop, rules
from fxport.diagnostics.exhaustion import raise_if_exhausted
from fxport.diagnostics.messages import error_line
from fxport.diagnostics.source import place_of_exception
from fxport.exporter.sources.source import Source
from fxport.exporter.validation.attribution import Attribution, Subject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fxport.exporter.onnx_program import OnnxProgram
    from fxport.exporter.pipeline.options import Options
    from fxport.ort_runner import Samples, Validation


SLOWEST = 20
"""ONNX Runtime may take so many times as long for one run as PyTorch for all, until it is taken to hang."""


PAID = 0.2
"""The part of an export's time for which it is compared at further sizes."""

GIVEN = 1.0
"""Seconds that further sizes may take in any case: which sizes a small model is compared at depends on no clock."""

EXPORT_STAGES = frozenset({"capture", "weights", "normalize", "lower", "finish", "save"})


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Tolerances that replace the error budget: |got - want| <= atol + rtol * |want|. With neither, the budget
    holds.
    """

    atol: float | None = None
    rtol: float | None = None


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
    runtimes: Sequence[str] = (),
) -> Validation | None:
    """Run the file and compare. Errors are in the log; None where there was nothing to compare with.

    With the `options` of the export, the origin of a difference is looked for, and `told` is given it: not where the
    program's weights are elsewhere, as those of a sharded model that one process has no room for. With `hard`, zeros,
    NaN and the like are tried as well. Besides ONNX Runtime, the `runtimes` run the same samples.
    """
    from fxport.exporter.validation import limits
    from fxport.ort_runner import validate
    from fxport.ort_runner.child import time_limit_of
    from fxport.ort_runner.runtimes import ONNXRUNTIME
    from fxport.ort_runner.witnesses import witnessed

    validation: Validation | None = None
    try:
        started = time.monotonic()
        with log.stage("reference"):
            cases = samples_of(source, program, log, hard=hard, seconds=max(GIVEN, PAID * exported_in(log)))
            samples = [adapt(each) for each in cases]
        limit = max(time_limit_of(path), SLOWEST * (time.monotonic() - started))
        with log.stage("validate"):
            if samples:
                atol, rtol = tolerances.atol, tolerances.rtol
                explain = None
                if options is not None and not program.program.sources:
                    alone = source if source.whole is None else replace(source, model=source.whole)
                    subject = Subject(path, alone, program, options, provider, isolate)
                    from fxport.exporter.validation.origins import explainer

                    explain = explainer(subject, cases, adapt, told)
                validation = validate(
                    path,
                    samples,
                    provider,
                    log,
                    isolate=isolate,
                    time_limit=limit,
                    atol=atol,
                    rtol=rtol,
                    explain=explain,
                )
                if validation.passed and source.whole is None:
                    limited = limits.Subject(path, source, program, provider, isolate, atol, rtol, adapt)
                    validation = limits.checked_limits(limited, validation, log)
                others = [name for name in dict.fromkeys(runtimes) if name != ONNXRUNTIME]
                if others:
                    terms = {"isolate": isolate, "time_limit": limit, "atol": atol, "rtol": rtol}
                    validation = witnessed(validation, samples, others, log, **terms)
    except Stop:
        return validation  # its findings are in the log, the file is there: the summary is still wanted
    return validation


def exported_in(log: Log) -> float:
    """The seconds that the export took."""
    return sum(seconds for name, seconds in log.stages if name in EXPORT_STAGES)


def samples_of(
    source: Source, program: OnnxProgram, log: Log, *, hard: bool = False, seconds: float = 0.0
) -> list[Samples]:
    """The runs of eager PyTorch, as many at further sizes as `seconds` pay for.

    Where the model does not run there, that is a finding and there are none.
    """
    from fxport.exporter.capture.eager import INPUTS_THAT_RUN, FailsOnRanks, failure_in_eager
    from fxport.exporter.validation import reference

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
                seconds=seconds,
                label=source.label,
                further=source.further,
                whole=source.whole,
            )
        )
    except Exception as raised:
        raise_if_exhausted(raised)
        spread = isinstance(raised, FailsOnRanks)
        error = raised.__cause__ if spread else failure_in_eager(source.model, args, source.kwargs)
        if error is None:
            raise
        reason = f"eager PyTorch raises {error_line(error)}"
        log.report(rules.VALIDATION_SKIPPED, at=place_of_exception(error), fixes=[INPUTS_THAT_RUN], reason=reason)
        return []
    return [case.samples() for case in cases]
