"""`fxport bisect MODEL --against SOURCE`: where a difference from PyTorch comes from, and how that was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fxport.diagnostics import Finding, Fix, Log, rules
from fxport.diagnostics.amounts import allowed, plural
from fxport.exporter.cli import arguments
from fxport.exporter.cli.edge import run
from fxport.exporter.cli.reporting import Reporting, reports
from fxport.exporter.sources.dynamic import require_readable
from fxport.exporter.sources.outputs import require_folder
from fxport.exporter.sources.source import require_file
from fxport.exporter.sources.users_code import shown
from fxport.exporter.validation.choices import require_provider

if TYPE_CHECKING:
    from fxport.exporter.validation.attribution import Attribution

SEARCHED = Fix("Look at the marked line; the search that led there is told below.")


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
    repro: arguments.Repro = None,
    plugin: arguments.Plugin = None,
    reporting: Reporting = Reporting(),
) -> None:
    """Find the stage and the line that a difference from PyTorch comes from.

    Exit codes are those of `fxport export`.
    """
    require_file(model)
    require_provider(provider)
    require_readable(input or (), dynamic or ())

    from fxport.exporter.validation.comparison import Comparison, compare

    told: list[Attribution] = []
    if repro is not None:
        require_folder(repro, "--repro")
    given = input or (), inputs or (), dynamic or ()
    asked = Comparison(
        *(model, against, *given, provider, plugin or ()), repro=repro, told=told.append, init=init or (), trust=trust
    )

    def work(log: Log) -> str:
        log.revise(told_below)
        return "\n".join([compare(asked, log), *(line for found in told for line in story(found))])

    raise typer.Exit(run(work, reporting.resolved("bisect", against)))


def told_below(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Of a difference, say that the search is told here: the rule's own advice is to run this command."""
    return [
        replace(each, fixes=(*each.fixes, SEARCHED)) if each.rule is rules.OUTPUT_DRIFT else each for each in findings
    ]


def story(found: Attribution) -> Iterator[str]:
    """Yield the steps of a bisection: the stages, the first value that differs, the operations that cause
    differences.
    """
    yield "the search"
    for step in found.trail:
        yield f"  {'equal    ' if step.equal else 'DIFFERENT'}  {step.stage}"
    divergence = found.divergence
    if divergence is not None:
        sessions = plural(divergence.sessions, "session")
        yield f"  {plural(divergence.compared, 'value')} of the model compared in {sessions}"
        first = divergence.first
        if first is not None:
            yield f"  first difference: '{first.mark.key}', {allowed(first.verdict.ratio)}"
        for cause in divergence.causes:
            at = f"{shown(cause.place.path)}:{cause.place.line}"
            yield f"  different by itself: '{cause.mark.key}' ({cause.operator}) at {at}"
    yield f"  cause: {found.text}"
