"""`fxport embed DIR TEXT…`: the vectors of texts, or their scores for a query, by a package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fxport.diagnostics import Log
from fxport.diagnostics.report import Report
from fxport.exporter.checks.vectors import Wanted, vectors
from fxport.exporter.cli.edge import run
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.choices import require_runtime


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What fxport package has written.")],
    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXT…", help="The texts.")] = None,
    query: Annotated[
        str | None, typer.Option("--query", metavar="TEXT", help="Score the texts as answers to it: of a reranker.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt-name", metavar="NAME", help="The beginning to put before each text.")
    ] = None,
    image: Annotated[
        list[Path] | None,
        typer.Option("--image", metavar="FILE", help="An image; its vector comes after those of texts."),
    ] = None,
    provider: Annotated[str, typer.Option("--provider", help="ONNX Runtime provider to run on.")] = "auto",
    threads: Annotated[int, typer.Option("--threads", min=0, help="Threads; 0: as many as cores.")] = 0,
) -> None:
    """Print vectors of texts, or their scores for a query, with a package: a line of JSON for each text."""
    if query is not None and prompt is not None:
        raise UsageError("--prompt-name is about vectors; omit it beside --query.")
    images = tuple(image or ())
    if not texts and not images:
        raise UsageError("Give at least one TEXT, or --image FILE.")
    if query is not None and (images or not texts):
        raise UsageError("--query is about texts: give these, and no --image.")
    require_runtime("embed")
    wanted = Wanted(folder, tuple(texts or ()), query, prompt, images, provider, threads)
    raise typer.Exit(run(lambda log: embedded(wanted, log), Report(str(folder), run="embed")))


def embedded(wanted: Wanted, log: Log) -> str:
    """A line of JSON for each text, then for each image."""
    return "\n".join(json.dumps([float(f"{each:.9g}") for each in row]) for row in vectors(wanted, log))
