"""`fxport check`: all models of a manifest, exported and validated; and the same of one model in a test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fxport.exporter.checks.executors import Executor, Workers
from fxport.exporter.cli.reporting import Reporting, reports


@reports(without=("baseline",))  # its baseline is fxport.lock
def command(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="MODEL", help="Models of the manifest, by name; all by default.")
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option("--manifest", metavar="PATH", help="fxport.toml, or pyproject.toml with [tool.fxport]."),
    ] = None,
    init: Annotated[bool, typer.Option("--init", help="Write fxport.toml from the models found here.")] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Checks at the same time; one for two cores by default.")
    ] = None,
    executor: Annotated[
        Executor, typer.Option("--executor", help="Where checks run: processes of this machine, or a Ray cluster.")
    ] = Executor.LOCAL,
    address: Annotated[
        str | None,
        typer.Option("--address", metavar="ADDRESS", help="Of the Ray cluster; without it, one of this machine."),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Check models that have not changed, too.")] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Write what is found to the baseline fxport.lock instead of comparing.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Models and cache; .fxport beside the manifest by default."),
    ] = None,
    reporting: Reporting = Reporting(),
) -> None:
    """Check all models of a manifest: each exported and validated, in processes of their own.

    Exit codes: 0 clean, 1 findings at or above --fail-on, 2 usage, 3 a fault of fxport's, 130 interrupted.
    """
    from fxport.exporter.cli.check.run import Request, check, written_manifest

    if init:
        print(written_manifest(Path.cwd()))
        raise typer.Exit
    request = Request(
        models=tuple(models or ()),
        manifest=manifest,
        workers=Workers(executor, jobs, address),
        cached=not no_cache,
        update=update,
        output=output,
        reporting=reporting,
    )
    raise typer.Exit(check(request))
