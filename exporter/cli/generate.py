"""`fxport generate DIR`: the text that a package writes, and how fast."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fxport.diagnostics import Log
from fxport.diagnostics.report import Report
from fxport.exporter.checks.supervised import within_limits
from fxport.exporter.cli.edge import run
from fxport.exporter.cli.packages import running_a_package
from fxport.exporter.sources.usage import UsageError

if TYPE_CHECKING:
    import numpy as np

    from fxport.ort_runner.generation import Generator
    from fxport.ort_runner.tokenizer import Tokenizer
    from fxport.ort_runner.vision import Image


@dataclass(frozen=True, slots=True)
class Request:
    """One command line of `fxport generate`, as it was typed."""

    folder: Path
    prompt: str | None
    ids: str | None
    features: Path | None
    images: tuple[Path, ...]
    audio: Path | None
    adapter: Path | None
    new: int
    provider: str
    threads: int


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
    asked = Request(folder, prompt, ids, features, images, audio, adapter, max_new_tokens, provider, threads)
    raise typer.Exit(run(lambda log: generated(asked, log), Report(str(folder), run="generate")))


def generated(asked: Request, log: Log) -> str:
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


def prompt_of(asked: Request, tokenizer: Tokenizer | None) -> tuple[list[list[int]] | np.ndarray, int, str]:
    """The tokens of the one prompt, or the features of the one sound; how many there are, and of what."""
    import numpy as np

    if asked.features is not None:
        try:
            sounds = np.load(asked.features, allow_pickle=False)[None].astype(np.float32, copy=False)
        except Exception as error:  # anybody's file, of which NumPy raises what it likes
            raise UsageError(f"'{asked.features}' holds no array: {error}; write it with numpy.save.") from error
        return sounds, sounds.shape[-1], "frames"
    if asked.audio is not None:
        from fxport.ort_runner.sounds import SoundConfig, features_of, read_sound

        config, filters = SoundConfig.read(asked.folder)
        sounds = features_of(read_sound(asked.audio, config), config, filters)[None]
        return sounds, sounds.shape[-1], "frames"
    ids = ids_of(asked.ids or "") if tokenizer is None else tokenizer.encode(asked.prompt or "")
    return [ids], len(ids), "tokens"


def images_of(
    asked: Request, generator: Generator, prompts: list[list[int]] | np.ndarray, tokenizer: Tokenizer | None
) -> list[list[Image]] | None:
    """The images of the one prompt; None where there are none."""
    if not asked.images:
        return None
    from fxport.ort_runner.pictures import PictureConfig, inputs_of, read_picture

    if generator.config.vision is None:
        raise UsageError(f"'{asked.folder}' reads no images; omit --image.")
    token = generator.config.vision.token
    if list(prompts[0]).count(token) != len(asked.images):
        name = repr(tokenizer.backend.id_to_token(token)) if tokenizer is not None else str(token)
        raise UsageError(f"The prompt needs {name} in the place of each image, {len(asked.images)} times.")
    config = PictureConfig.read(asked.folder)
    return [[inputs_of(read_picture(path), config) for path in asked.images]]


def timed(
    generator: Generator,
    prompts: list[list[int]] | np.ndarray,
    new: int,
    images: list[list[Image]] | None = None,
    alive: Callable[[], None] = lambda: None,
) -> tuple[list[int], list[float]]:
    """The new tokens, and the seconds that each took; the first are those of the prompt. Calls `alive` after each."""
    chosen, seconds, start = [], [], time.perf_counter()
    for token in generator.greedy(prompts, new, images=images):
        seconds.append(time.perf_counter() - start)
        chosen.append(int(token[0]))
        alive()
        start = time.perf_counter()
    return chosen, seconds


def speed(prompt: int, unit: str, seconds: list[float]) -> str:
    """Rates at which the prompt was taken, and the tokens after the first were generated."""
    told = f"prompt of {prompt} {unit}: {prompt / seconds[0]:.1f} {unit}/s"
    further = seconds[1:]
    return f"{told}; {len(further)} further tokens: {len(further) / sum(further):.1f} tokens/s" if further else told


def ids_of(text: str) -> list[int]:
    """Token ids of a text such as "1,2,3"."""
    try:
        ids = [int(each) for each in text.replace(",", " ").split()]
    except ValueError:
        ids = []
    if not ids or min(ids) < 0:
        raise UsageError(f"--ids '{text}' are no token ids; write 1,2,3.")
    return ids
