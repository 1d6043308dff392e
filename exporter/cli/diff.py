"""`fxport diff OLD NEW`: two ONNX files told apart, by interface, operators, weights and results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fxport.diagnostics import Log, Place, rules
from fxport.diagnostics.amounts import plural
from fxport.diagnostics.messages import error_line
from fxport.exporter.cli import arguments
from fxport.exporter.cli.edge import run
from fxport.exporter.cli.reporting import Reporting, reports
from fxport.exporter.sources.source import require_file
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.against_eager import require_provider
from fxport.exporter.validation.differences import COMPARISONS, are_unrelated
from fxport.exporter.validation.model_file import model_of, require_weights
from fxport.exporter.validation.results import Numerics, numerics_of
from fxport.exporter.validation.summary import count_nodes


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
    ran = None if no_run else Numerics(old, new, inputs or (), provider)
    raise typer.Exit(run(lambda log: compare(old, new, log, ran), reporting.resolved("diff", str(new))))


def compare(old: Path, new: Path, log: Log, ran: Numerics | None = None) -> str:
    """Report each difference, of results where both are `ran`; returns the summary."""
    before, after = model_of(old), model_of(new)
    for path in (old, new):
        require_weights(path, log)
    place, counts = Place(str(new.resolve()), 1, 1), dict.fromkeys(COMPARISONS, 0)
    if are_unrelated(before, after):
        log.report(rules.CONTRACT_CHANGED, at=place, name="model", old=old.name, new=new.name)
        return "unrelated: no name of an input or output and no weight is in both files"
    for what, comparison in COMPARISONS.items():
        try:
            for rule, facts in comparison(before, after):
                log.report(rule, at=place, **facts)
                counts[what] += 1
        except (OSError, ValueError) as error:  # weights with fewer bytes than their shape needs
            raise UsageError(f"The {what} cannot be compared: {error_line(error)}; export the file again.") from error
    told = [f"{what}: {plural(count, 'difference') if count else 'equal'}" for what, count in counts.items()]
    numerics = numerics_of(ran, place, log) if ran else []
    return "\n".join([*told, *numerics, f"nodes: {count_nodes(before)} → {count_nodes(after)}"])
