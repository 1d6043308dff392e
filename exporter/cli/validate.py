"""`fxport validate MODEL --against SOURCE`: a file that exists already, against the model that it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fxport.exporter.cli import arguments
from fxport.exporter.cli.edge import run
from fxport.exporter.cli.reporting import Reporting, reports
from fxport.exporter.sources.dynamic import require_readable
from fxport.exporter.sources.outputs import require_folder
from fxport.exporter.sources.source import require_file
from fxport.exporter.validation.choices import require_provider, require_runtimes


@reports()
def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX file.")],
    against: Annotated[str, typer.Option("--against", metavar="SOURCE", help="The model in PyTorch, as for export.")],
    trust: arguments.Trust = False,
    sandbox: arguments.Sandbox = False,  # dealt with before: cli.sandbox
    init: arguments.Init = None,
    input: arguments.Input = None,
    inputs: arguments.SampleFiles = None,
    dynamic: arguments.Dynamic = None,
    provider: arguments.Provider = "auto",
    runtime: arguments.Runtimes = None,
    bisect: arguments.Bisect = True,
    repro: arguments.Repro = None,
    adversarial: arguments.Adversarial = False,
    atol: arguments.Atol = None,
    rtol: arguments.Rtol = None,
    plugin: arguments.Plugin = None,
    reporting: Reporting = Reporting(),
) -> None:
    """Compare an ONNX model with the PyTorch model that it came from.

    The file's inputs and outputs are matched with those of SOURCE in their order, so it may be another exporter's.
    Exit codes are those of `fxport export`.
    """
    require_file(model)
    require_provider(provider)
    require_runtimes(runtime or ())
    require_readable(input or (), dynamic or ())
    if repro is not None:
        require_folder(repro, "--repro")
    from fxport.exporter.validation.comparison import Comparison, compare

    asked = Comparison(
        model,
        against,
        input or (),
        inputs or (),
        dynamic or (),
        provider,
        plugin or (),
        bisect,
        repro,
        adversarial,
        init=init or (),
        trust=trust,
        runtimes=runtime or (),
        atol=atol,
        rtol=rtol,
    )
    raise typer.Exit(run(lambda log: compare(asked, log), reporting.resolved("validate", against)))
