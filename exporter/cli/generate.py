"""`fxport generate DIR`: the text that a package writes, and how fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fxport.diagnostics import Log
from fxport.diagnostics.report import Report
from fxport.exporter.checks.supervised import within_limits
from fxport.exporter.cli.edge import run
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.choices import require_runtime
from fxport.exporter.validation.packages import running_a_package
from fxport.ort_runner.prompts import Asked, images_of, prompt_of, speed, timed


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What fxport package has written.")],
    prompt: Annotated[str | None, typer.Option("--prompt", metavar="TEXT", help="How the text begins.")] = None,
    ids: Annotated[str | None, typer.Option("--ids", metavar="1,2,3", help="The same as token ids.")] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            "--features", metavar="FILE.npy", help="What a model of sounds reads: [bands, frames] of float32."
        ),
    ] = None,
    image: Annotated[
        list[Path] | None,
        typer.Option(
            "--image", metavar="FILE", help="An image of the prompt, which has its token there; may be given again."
        ),
    ] = None,
    audio: Annotated[
        Path | None, typer.Option("--audio", metavar="FILE.wav", help="A sound that a model of sounds reads.")
    ] = None,
    adapter: Annotated[
        Path | None, typer.Option("--adapter", metavar="FILE", help="A LoRA that takes part: DIR/adapter.onnx_adapter.")
    ] = None,
    max_new_tokens: Annotated[int, typer.Option("--max-new-tokens", min=1, help="Tokens at most.")] = 64,
    provider: Annotated[str, typer.Option("--provider", help="ONNX Runtime provider to run on.")] = "auto",
    threads: Annotated[int, typer.Option("--threads", min=0, help="Threads; 0: as many as cores.")] = 0,
) -> None:
    """Generate text with a package, and tell tokens per second. Each token is the likeliest one.

    An encoder-decoder reads the prompt, and its text begins with the tokens of its package.
    """
    if (prompt, ids, features, audio).count(None) != 3:
        raise UsageError("Give either --prompt TEXT, --ids 1,2,3, --audio FILE.wav, or --features FILE.npy.")
    images = tuple(image or ())
    if images and prompt is None and ids is None:
        raise UsageError("--image is about a prompt: give --prompt TEXT or --ids 1,2,3 too.")
    require_runtime("generate")
    asked = Asked(folder, prompt, ids, features, images, audio, adapter, max_new_tokens, provider, threads)
    raise typer.Exit(run(lambda log: generated(asked, log), Report(str(folder), run="generate")))


def generated(asked: Asked, log: Log) -> str:
    """The text, or the token ids where ids were given, and a line with the speed."""
    from fxport.ort_runner.generation import Generator
    from fxport.ort_runner.tokenizer import Tokenizer
    from fxport.ort_runner.tokenizer_trial import require_bounded

    with running_a_package(log, "generate"):
        tokenizer = Tokenizer(asked.folder) if asked.ids is None else None
        if tokenizer is not None:
            require_bounded(asked.folder, [asked.prompt or ""])
        read, size, unit = prompt_of(asked, tokenizer)
        with log.stage("load"), within_limits(asked.folder, asked.provider):
            generator = Generator(asked.folder, asked.provider, asked.threads, asked.adapter)
            images = images_of(asked, generator, read, tokenizer)
        pictures = images[0] if images else ()
        with (
            log.stage("generate"),
            within_limits(asked.folder, asked.provider, size, asked.new, pictures) as alive,
        ):
            chosen, seconds = timed(generator, read, asked.new, images, alive)
        if tokenizer is not None:
            require_bounded(asked.folder, ids=chosen)
    text = tokenizer.decode(chosen) if tokenizer is not None else ",".join(map(str, chosen))
    search = f"; the folder asks for another search: {generator.rules.search}" if generator.rules.search else ""
    return f"{text}\n\n{speed(size, unit, seconds)}, on {generator.provider}{search}"
