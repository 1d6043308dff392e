"""`fxport embed DIR TEXT…`: the vectors of texts, or their scores for a query, by a package."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fxport.diagnostics import Log
from fxport.diagnostics.report import Report
from fxport.exporter.cli.edge import run
from fxport.exporter.cli.packages import running_a_package
from fxport.exporter.sources.usage import UsageError


@dataclass(frozen=True, slots=True)
class Request:
    """One command line of `fxport embed`, as it was typed."""

    folder: Path
    texts: tuple[str, ...]
    query: str | None
    prompt: str | None
    provider: str
    threads: int


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What fxport package has written.")],
    texts: Annotated[list[str], typer.Argument(metavar="TEXT…", help="The texts.")],
    query: Annotated[
        str | None, typer.Option("--query", metavar="TEXT", help="Score the texts as answers to it: of a reranker.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt-name", metavar="NAME", help="The beginning to put before each text.")
    ] = None,
    provider: Annotated[str, typer.Option("--provider", help="ONNX Runtime provider to run on.")] = "auto",
    threads: Annotated[int, typer.Option("--threads", min=0, help="Threads; 0: as many as cores.")] = 0,
) -> None:
    """Print vectors of texts, or their scores for a query, with a package: a line of JSON for each text."""
    if query is not None and prompt is not None:
        raise UsageError("--prompt-name is about vectors; omit it beside --query.")
    asked = Request(folder, tuple(texts), query, prompt, provider, threads)
    raise typer.Exit(run(lambda log: embedded(asked, log), Report(str(folder), run="embed")))


def embedded(asked: Request, log: Log) -> str:
    """A line of JSON for each text."""
    from fxport.ort_runner.text_model import TextModel

    with running_a_package(log, "run"):
        with log.stage("load"):
            model = TextModel(asked.folder, asked.provider, asked.threads)
        with log.stage("run"):
            rows = (
                model.embed(asked.texts, asked.prompt) if asked.query is None else model.score(asked.query, asked.texts)
            )
    return "\n".join(json.dumps([float(f"{each:.9g}") for each in row]) for row in rows)
