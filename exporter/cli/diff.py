"""`fxport diff OLD NEW`: two ONNX files told apart, by interface, operators, weights and results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fxport.exporter.cli import arguments
from fxport.exporter.cli.edge import run
from fxport.exporter.cli.reporting import Reporting, reports
from fxport.exporter.sources.source import require_file
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.choices import require_provider


@reports()
def command(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="An ONNX file.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Another.")],
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--inputs", metavar="FILE", help="Inputs to run both on: .npz or .pt, by the files' names. Repeatable."
        ),
    ] = None,
    no_run: Annotated[bool, typer.Option("--no-run", help="Do not run the files.")] = False,
    provider: arguments.Provider = "auto",
    reporting: Reporting = Reporting(),
) -> None:
    """Tell two ONNX files apart: interface, operators, weights, and what they compute from the same inputs.

    A change of the interface is an error, other weights or results are a warning, other operators a note. Without
    --inputs both run on random ones. Exit codes are those of `fxport export`.
    """
    for path in (old, new):
        require_file(path)
    require_provider(provider)
    if no_run and inputs:
        raise UsageError("--no-run leaves --inputs without a use; leave one of them out.")

    from fxport.exporter.validation.diff import compare
    from fxport.exporter.validation.results import Numerics

    ran = None if no_run else Numerics(old, new, inputs or (), provider)
    raise typer.Exit(run(lambda log: compare(old, new, log, ran), reporting.resolved("diff", str(new))))
