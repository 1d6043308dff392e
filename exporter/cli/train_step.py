"""`fxport train-step SOURCE`: from a model, an optimizer and a loss to a validated model of one training step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fxport.exporter.cli import arguments
from fxport.exporter.cli.edge import run
from fxport.exporter.cli.reporting import Reporting, reports
from fxport.exporter.sources.outputs import require_apart, require_writable
from fxport.exporter.sources.source import short_name
from fxport.exporter.sources.step_parts import PARTS
from fxport.exporter.validation.choices import require_provider

TrainingSource = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="FILE.py:NAME or package.module:NAME, where NAME is a function that returns "
        f"{PARTS}; loss_fn(model, *batch) returns the loss.",
    ),
]


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
    require_provider(provider)

    from fxport.exporter.validation.training_step import StepRequest, export_and_validate

    request = StepRequest(
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
