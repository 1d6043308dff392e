"""One model through all stages: exported, saved, run in ONNX Runtime, compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics import Log
from fxport.exporter.sources.source import Source
from fxport.exporter.validation import ranks
from fxport.exporter.validation.against_eager import Tolerances, validation_of
from fxport.exporter.validation.choices import require_provider, require_runtimes
from fxport.exporter.validation.request import exported, saved, with_weights_to_run
from fxport.exporter.validation.summary import verdict

if TYPE_CHECKING:
    from fxport.exporter.onnx_program import OnnxProgram
    from fxport.exporter.pipeline.options import Options
    from fxport.ort_runner import Validation


@dataclass(frozen=True, slots=True, repr=False)
class Checked:
    """Result of a check: the file, all files with those of weights, the exported model in memory, the comparison, the
    log.

    `validation` is None where there was nothing to compare with; the log says why. It also is on the ranks of a sharded
    model that only take part, which write no files; their log has rank 0's findings.
    """

    path: Path
    files: Sequence[Path]
    program: OnnxProgram
    validation: Validation | None
    log: Log

    def __repr__(self) -> str:
        """The model's inputs and outputs, the files, and the verdict on each sample."""
        return "\n".join(
            [repr(self.program), f"  files    {', '.join(map(str, self.files))}", *verdict(self.validation)]
        )


def check_one(
    source: Source,
    options: Options,
    path: Path,
    provider: str,
    log: Log,
    tolerances: Tolerances = Tolerances(),
    *,
    isolate: bool = True,
    hard: bool = False,
    validate: bool = True,
    runtimes: Sequence[str] = (),
) -> Checked:
    """Export, save and validate one model; a rank that only takes part writes no files and keeps `export`'s program
    there. Without `validate`, it is exported and saved only.

    Raises Stop where there is no model, its findings in the log; UsageError for inputs that make no sense, OSError
    where `path` cannot be written. `isolate` runs ONNX Runtime in a process of its own; `hard` also tries hard values;
    `runtimes` run the samples besides ONNX Runtime.
    """
    if validate:
        require_provider(provider)
        require_runtimes(runtimes)
    program = exported(source, options, log)
    files = saved(program, path, log)
    if not validate:
        return Checked(path, files, program, None, log)
    with ranks.to_validate(program, source, log) as subject:
        if subject is None:
            return Checked(path, files, program, None, log)
        ready = with_weights_to_run(subject, program, log)
        validation = ready and validation_of(
            path,
            *ready,
            provider,
            log,
            tolerances=tolerances,
            isolate=isolate,
            options=options,
            hard=hard,
            runtimes=runtimes,
        )
    return Checked(path, files, program, validation, log)
