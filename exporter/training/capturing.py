"""Export of a function around a model, with what is refused of every such function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fxport.diagnostics import Finding, Fix, Level, Log, rules
from fxport.exporter.capture.failures import causes
from fxport.exporter.capture.places import Around
from fxport.exporter.onnx_program import OnnxProgram
from fxport.exporter.pipeline.errors import ExportError
from fxport.exporter.pipeline.exporting import export
from fxport.exporter.pipeline.options import Options
from fxport.exporter.training.carried import RANDOM
from fxport.exporter.training.step import TrainingError
from fxport.fx_passes.randomness import report_randomness


def exported(
    step: Around, call: tuple[Any, ...], shapes: dict[str, Any] | None, options: Options, log: Log
) -> OnnxProgram:
    """One step as a model. A TrainingError that ended the capture is raised as what it is."""
    try:
        return export(step, call, dynamic_shapes=shapes, options=options, log=log)
    except ExportError as error:
        mistake = next((each for each in causes(error) if isinstance(each, TrainingError)), None)
        if mistake is None:
            raise
        raise TrainingError(str(mistake)) from error


def refuse_constants(program: OnnxProgram) -> None:
    """Raise ExportError where the step draws numbers with Python or NumPy, which would be the same in each step."""
    log = program.log

    def revised(found: Sequence[Finding]) -> list[Finding]:
        return [replace(each, level=Level.ERROR, fixes=(Fix(RANDOM),)) if _is_drawn(each) else each for each in found]

    if any(map(_is_drawn, log.findings)):
        log.revise(revised)
        raise ExportError(log, "the step draws numbers that would be the same in each step")


def _is_drawn(finding: Finding) -> bool:
    return finding.rule is rules.PYTHON_RANDOM_BAKED


def refuse_unseeded(program: OnnxProgram) -> None:
    """Raise ExportError where the step still draws random numbers of its own, as in branches and bodies of loops."""
    before = len(program.log.findings)
    report_randomness(program.program.graph_module, program.log, rules.UNSEEDED_RANDOM)
    if len(program.log.findings) > before:
        raise ExportError(program.log, "the step draws random numbers that do not follow its seed")
