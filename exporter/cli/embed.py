"""`fxport embed DIR TEXT…`: the vectors of texts, or their scores for a query, by a package."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fxport.diagnostics import Log
from fxport.diagnostics.report import Report
from fxport.exporter.checks.supervised import within_limits
from fxport.exporter.cli.edge import run
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.choices import require_runtime
from fxport.exporter.validation.packages import running_a_package

if TYPE_CHECKING:
    from fxport.ort_runner.vision import Image

AROUND = 64
"""Tokens that a package may put around a text: a prompt, and marks of its beginning and end."""


@dataclass(frozen=True, slots=True)
class Request:
    """One command line of `fxport embed`, as it was typed."""

    folder: Path
    texts: tuple[str, ...]
    query: str | None
    prompt: str | None
    images: tuple[Path, ...]
    provider: str
    threads: int


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
    asked = Request(folder, tuple(texts or ()), query, prompt, images, provider, threads)
    raise typer.Exit(run(lambda log: embedded(asked, log), Report(str(folder), run="embed")))


def embedded(asked: Request, log: Log) -> str:
    """A line of JSON for each text, then for each image."""
    from fxport.ort_runner.text_model import TextModel
    from fxport.ort_runner.tokenizer_trial import require_bounded

    texts = [*asked.texts, *([] if asked.query is None else [asked.query])]
    with running_a_package(log, "run"):
        with log.stage("load"), within_limits(asked.folder, asked.provider):
            model = TextModel(asked.folder, asked.provider, asked.threads)
        if texts:
            require_bounded(asked.folder, texts)
        pictures = pictures_of(asked)
        with (
            log.stage("run"),
            within_limits(asked.folder, asked.provider, most_tokens(texts), pictures=pictures),
        ):
            if asked.query is not None:
                rows = [*model.score(asked.query, asked.texts)]
            else:
                rows = [*model.embed(asked.texts, asked.prompt)] if asked.texts else []
                rows += [*model.embed_images(pictures)] if pictures else []
    return "\n".join(json.dumps([float(f"{each:.9g}") for each in row]) for row in rows)


def most_tokens(texts: Sequence[str]) -> int:
    """The most tokens that texts can be, all filled up to the longest: one for each byte, and some around them."""
    return len(texts) * (max((len(text.encode()) for text in texts), default=0) + AROUND)


def pictures_of(asked: Request) -> list[Image]:
    """The image files as inputs of the model."""
    if not asked.images:
        return []
    from fxport.ort_runner.pictures import PictureConfig, inputs_of, read_picture

    config = PictureConfig.read(asked.folder)
    return [inputs_of(read_picture(path), config) for path in asked.images]
