"""Vectors of texts and images, or scores of texts, that a package gives within limits of time and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics import Log
from fxport.exporter.checks.supervised import within_limits
from fxport.exporter.validation.packages import running_a_package

if TYPE_CHECKING:
    from fxport.ort_runner.vision import Image

AROUND = 64
"""Tokens that a package may put around a text: a prompt, and marks of its beginning and end."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A package, and the texts and images that it is given.

    Attributes:
        folder: The package.
        texts: The texts.
        query: What the texts are scored for; None where vectors are wanted.
        prompt: The name of what to put before each text.
        images: Files of images, whose vectors come after those of the texts.
        provider: The provider of ONNX Runtime to run on.
        threads: Threads; 0: as many as cores.
    """

    folder: Path
    texts: tuple[str, ...] = ()
    query: str | None = None
    prompt: str | None = None
    images: tuple[Path, ...] = ()
    provider: str = "auto"
    threads: int = 0


def vectors(wanted: Wanted, log: Log) -> list[list[float]]:
    """Return a row of numbers for each text, then for each image.

    Args:
        wanted: The package, and what it is asked for.
        log: Takes the findings and the seconds of the stages.

    Raises:
        Stop: The package cannot be run, or takes more than it may; the log says why.
        UsageError: There is no such package, or it does not do what is wanted.
    """
    from fxport.ort_runner.text_model import TextModel
    from fxport.ort_runner.tokenizer_trial import require_bounded

    texts = [*wanted.texts, *([] if wanted.query is None else [wanted.query])]
    with running_a_package(log, "run"):
        with log.stage("load"), within_limits(wanted.folder, wanted.provider):
            model = TextModel(wanted.folder, wanted.provider, wanted.threads)
        if texts:
            require_bounded(wanted.folder, texts)
        pictures = _pictures_of(wanted)
        with (
            log.stage("run"),
            within_limits(wanted.folder, wanted.provider, _most_tokens(texts), pictures=pictures),
        ):
            if wanted.query is not None:
                rows = [*model.score(wanted.query, wanted.texts)]
            else:
                rows = [*model.embed(wanted.texts, wanted.prompt)] if wanted.texts else []
                rows += [*model.embed_images(pictures)] if pictures else []
    return [[float(each) for each in row] for row in rows]


def _most_tokens(texts: Sequence[str]) -> int:
    """Return the most tokens that texts can be, all filled up to the longest: one for each byte, and some around."""
    return len(texts) * (max((len(text.encode()) for text in texts), default=0) + AROUND)


def _pictures_of(wanted: Wanted) -> list[Image]:
    """Return the image files as inputs of the model."""
    if not wanted.images:
        return []
    from fxport.ort_runner.pictures import PictureConfig, inputs_of, read_picture

    config = PictureConfig.read(wanted.folder)
    return [inputs_of(read_picture(path), config) for path in wanted.images]
