"""`fxport train-step SOURCE`: from a model, an optimizer and a loss to a validated model of one training step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fxport.diagnostics import Log, Stop
from fxport.diagnostics.messages import error_line
from fxport.exporter.cli import arguments
from fxport.exporter.cli.edge import run
from fxport.exporter.cli.export import short_name
from fxport.exporter.cli.output import require_apart, require_writable
from fxport.exporter.cli.reporting import Reporting, reports
from fxport.exporter.sources.source import Source, found, require_arguments, seed, users_code
from fxport.exporter.sources.usage import UsageError

if TYPE_CHECKING:
    from fxport.exporter.training import TrainingProgram
    from fxport.exporter.training.evaluation import EvaluationProgram
    from fxport.ort_runner import Validation

PARTS = "(model, optimizer, loss_fn, batch[, dynamic_shapes])"

TrainingSource = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="FILE.py:NAME or package.module:NAME, where NAME is a function that returns "
        f"{PARTS}; loss_fn(model, *batch) returns the loss.",
    ),
]


@dataclass(frozen=True, slots=True)
class Request:
    """One command line of `fxport train-step`, as it was typed."""

    source: str
    output: Path
    opset: int | None
    steps: int
    accumulate: int
    clip_grad_norm: float | None
    constant_lr: bool
    native_rng: bool
    provider: str
    validate: bool
    weights: Path | None
    evaluate: bool


@reports()
def command(
    source: TrainingSource,
    output: arguments.Output = None,
    opset: arguments.Opset = None,
    steps: Annotated[int, typer.Option("--steps", help="Steps a run, in a Loop; batches then have an axis more.")] = 1,
    accumulate: Annotated[int, typer.Option("--accumulate", help="Micro-batches a step.")] = 1,
    clip_grad_norm: Annotated[
        float | None, typer.Option("--clip-grad-norm", metavar="NORM", help="Scale gradients down to this 2-norm.")
    ] = None,
    constant_lr: Annotated[bool, typer.Option("--constant-lr", help="Learning rates as constants.")] = False,
    native_rng: Annotated[
        bool, typer.Option("--native-rng", help="Random numbers of ONNX Runtime's own instead of a seed input.")
    ] = False,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="A second graph beside it: the loss with the model in eval mode.")
    ] = False,
    weights: arguments.Weights = None,
    sandbox: arguments.Sandbox = False,  # dealt with before: cli.sandbox
    provider: arguments.Provider = "auto",
    no_validate: arguments.NoValidate = False,
    reporting: Reporting = Reporting(),
) -> None:
    """Export a training step to ONNX: forward, loss, backward and optimizer in one model, and its state beside it.

    Exit codes: 0 clean, 1 findings at or above --fail-on, 2 usage, 3 a fault of fxport's, 130 interrupted.
    """
    request = Request(
        source=source,
        output=output or Path(f"{short_name(source)}.onnx"),
        opset=opset,
        steps=steps,
        accumulate=accumulate,
        clip_grad_norm=clip_grad_norm,
        constant_lr=constant_lr,
        native_rng=native_rng,
        provider=provider,
        validate=not no_validate,
        weights=weights,
        evaluate=evaluate,
    )
    written = {"--output": request.output} | ({"--sarif": reporting.sarif} if reporting.sarif else {})
    require_writable(request.output, "--output")
    read = {"SOURCE": Path(source.rpartition(":")[0] or source)} | ({"--weights": weights} if weights else {})
    require_apart(read | written)
    raise typer.Exit(run(lambda log: export_and_validate(request, log), reporting.resolved("train-step", source)))


def export_and_validate(request: Request, log: Log) -> str:
    """The whole run; returns the summary. A model of several steps is not run: its step is that of a single one."""
    from fxport.exporter.validation.against_eager import require_provider
    from fxport.exporter.validation.summary import summary_of
    from fxport.ort_runner.train_evaluate import EVALUATION_SUFFIX

    require_provider(request.provider)
    with log.stage("load"):
        parts = parts_of(request.source)
    program = exported(request, parts, log)
    try:
        files = program.save(request.output)
    except OSError as error:
        raise UsageError(f"'{request.output}' cannot be written: {error_line(error)}; name another place.") from error
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
    """The step in ONNX Runtime against eager PyTorch's; a difference is blamed on a part of the step and a line."""
    from fxport.exporter.validation.against_eager import validation_of

    source = Source(name, program.step, program.call, dynamic_shapes=program.dynamic_shapes)
    return validation_of(path, source, program, provider, log, options=program.options)


def parts_of(text: str) -> Sequence[Any]:
    """Return the parts that the function named by SOURCE returns. Raises UsageError for a mistake or an exception in
    it.
    """
    value, _ = found(text, f"NAME is a function that returns {PARTS}")
    if not callable(value):
        raise UsageError(f"'{text}' is no function; name one that returns {PARTS}.")
    require_arguments(value, text, "write one without that calls it")
    seed()
    parts = users_code(value, f"Calling '{text}'")
    if not isinstance(parts, tuple) or not 4 <= len(parts) <= 5:
        raise UsageError(f"'{text}' gives a value of type '{type(parts).__name__}'; it should be {PARTS}.")
    refuse_strangers(parts, text)
    return parts


def refuse_strangers(parts: Sequence[Any], text: str) -> None:
    """Refuse parts of another kind than their places are for, before the first use of one fails."""
    from torch import nn, optim

    kinds = {"model": nn.Module, "optimizer": optim.Optimizer, "loss_fn": Callable, "batch": Sequence}
    for (name, kind), part in zip(kinds.items(), parts[:4], strict=True):
        if not isinstance(part, kind):
            raise UsageError(f"The {name} of '{text}' is of type '{type(part).__name__}'; it should return {PARTS}.")


def exported(request: Request, parts: Sequence[Any], log: Log) -> TrainingProgram:
    """The step in memory. Raises Stop with its findings in the log, or UsageError for parts that do not fit."""
    from fxport.exporter.capture.sizes.shapes import ShapesError
    from fxport.exporter.pipeline.errors import ExportError
    from fxport.exporter.pipeline.options import DEFAULT_OPSET, Options
    from fxport.exporter.training import TrainingError, export_training_step
    from fxport.exporter.weights import CheckpointError

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
            options=Options(opset=DEFAULT_OPSET if request.opset is None else request.opset),
            log=log,
        )
    except ExportError as error:
        raise Stop(log, "export") from error
    except CheckpointError as error:
        raise UsageError(f"--weights: {error}") from error
    except (TrainingError, ShapesError, ValueError) as error:
        raise UsageError(f"'{request.source}': {str(error).rstrip('.')}.") from error
