"""A training step from its SOURCE to files: exported, saved, and compared with eager PyTorch's step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fxport.diagnostics import Finding, Fix, Log, Stop, rules
from fxport.exporter.capture.sizes.shapes import ShapesError
from fxport.exporter.pipeline.errors import ExportError
from fxport.exporter.pipeline.options import Options
from fxport.exporter.sources.source import Source, short_name
from fxport.exporter.sources.step_parts import step_parts
from fxport.exporter.sources.usage import UsageError, unwritable
from fxport.exporter.training import TrainingError, TrainingProgram, export_training_step
from fxport.exporter.validation.against_eager import validation_of
from fxport.exporter.validation.choices import require_provider
from fxport.exporter.validation.summary import summary_of
from fxport.exporter.weights import CheckpointError
from fxport.ort_runner.train_files import EVALUATION_SUFFIX

if TYPE_CHECKING:
    from fxport.exporter.training.evaluation import EvaluationProgram
    from fxport.ort_runner import Validation

NEW_STATE = "new/"
"""Beginning of the names of outputs that are the state after a step."""

ZERO_GRADIENT = Fix(
    "If the gradient is zero but for rounding, as that of a bias before batch normalization, nothing depends on it: "
    "make that layer with `bias=False`, or compute in a wider type."
)

SECOND = "second step"
"""Label of the run on the state that the example's step leaves."""


@dataclass(frozen=True, slots=True)
class StepRequest:
    """A training step to export and validate, as `fxport train-step` is asked to.

    Attributes:
        source: FILE.py:NAME or package.module:NAME of a function that returns the parts of the step.
        output: The ONNX file; its state and its evaluation are written beside it.
        opset: The opset of the file; None for the default one.
        steps: Steps that a run makes, in a Loop.
        accumulate: Micro-batches of a step.
        clip_grad_norm: 2-norm down to which gradients are scaled.
        constant_lr: Whether learning rates are constants of the file.
        native_rng: Whether random numbers are the runtime's own, instead of a function of a seed input.
        provider: The execution provider of ONNX Runtime, or "auto".
        validate: Whether the step is run beside eager PyTorch's.
        weights: A checkpoint with the weights of the model.
        evaluate: Whether a second graph with the loss in eval mode is written.
    """

    source: str
    output: Path
    opset: int | None = None
    steps: int = 1
    accumulate: int = 1
    clip_grad_norm: float | None = None
    constant_lr: bool = False
    native_rng: bool = False
    provider: str = "auto"
    validate: bool = True
    weights: Path | None = None
    evaluate: bool = False


def export_and_validate(request: StepRequest, log: Log) -> str:
    """The whole run; returns the summary. A model of several steps is not run: its step is that of a single one."""
    require_provider(request.provider)
    with log.stage("load"):
        parts = step_parts(request.source)
    program = exported(request, parts, log)
    try:
        files = program.save(request.output)
    except OSError as error:
        raise unwritable(request.output, error) from error
    run_it = request.validate and request.steps == 1
    name = short_name(request.source)
    validation = validated(request.output, name, program, request.provider, log) if run_it else None
    if program.evaluation is not None and request.validate:
        path = request.output.with_suffix(EVALUATION_SUFFIX)
        validated(path, f"{name}, evaluation", program.evaluation, request.provider, log)
    return summary_of(program.model, files, validation, log)


def validated(
    path: Path, name: str, program: TrainingProgram | EvaluationProgram, provider: str, log: Log
) -> Validation | None:
    """The step in ONNX Runtime against eager PyTorch's; a difference is blamed on a part of the step and a line.

    A second step is compared as well: in the first, optimizers multiply a state of zeros.
    """
    further = _second(program) if isinstance(program, TrainingProgram) else {}
    log.revise(roundings_advised)
    source = Source(name, program.step, program.call, dynamic_shapes=program.dynamic_shapes, further=further)
    return validation_of(path, source, program, provider, log, options=program.options)


def roundings_advised(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Of new state that is rounding errors alone, say where that comes from in a training step."""
    return [
        replace(each, fixes=(ZERO_GRADIENT, *each.fixes))
        if each.rule is rules.NOT_COMPARABLE and str(each.facts["output"]).startswith(NEW_STATE)
        else each
        for each in findings
    ]


def _second(program: TrainingProgram) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """The call of the second step by its label; none where the first fails in PyTorch, which its own run reports."""
    try:
        return {SECOND: (program.second_call, {})}
    except Exception:  # noqa: BLE001  # the user's code raises what it likes
        return {}


def exported(request: StepRequest, parts: Sequence[Any], log: Log) -> TrainingProgram:
    """The step in memory. Raises Stop with its findings in the log, or UsageError for parts that do not fit."""
    try:
        return export_training_step(
            *parts[:4],
            dynamic_shapes=parts[4] if len(parts) == 5 else None,
            lr="constant" if request.constant_lr else "input",
            rng="native" if request.native_rng else "seed",
            accumulate=request.accumulate,
            clip_grad_norm=request.clip_grad_norm,
            steps=request.steps,
            evaluate=request.evaluate,
            weights=request.weights,
            options=Options(opset=request.opset),
            log=log,
        )
    except ExportError as error:
        raise Stop(log, "export") from error
    except CheckpointError as error:
        raise UsageError(f"--weights: {error}") from error
    except (TrainingError, ShapesError, ValueError) as error:
        raise UsageError(f"'{request.source}': {str(error).rstrip('.')}.") from error
