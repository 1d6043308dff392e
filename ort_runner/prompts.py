"""Prompts of `fxport generate` read from texts, ids and files, and the speed of what was generated."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.ort_runner.package_config import PackageError

if TYPE_CHECKING:
    import numpy as np

    from fxport.ort_runner.generation import Generator
    from fxport.ort_runner.tokenizer import Tokenizer
    from fxport.ort_runner.vision import Image


@dataclass(frozen=True, slots=True)
class Asked:
    """Request for one run of a package: what it reads, and what it is to write.

    Attributes:
        folder: The package.
        prompt: The text to go on with; it, `ids`, `features` or `audio` is given.
        ids: Its tokens, such as "1,2,3".
        features: A file of NumPy, float32 [bands, frames].
        images: Image files, one for each token of an image in the prompt.
        audio: A WAV file.
        adapter: A LoRA that takes part.
        new: Tokens to generate at most.
        provider: ONNX Runtime's provider.
        threads: Threads; 0 for as many as cores.
    """

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


def prompt_of(asked: Asked, tokenizer: Tokenizer | None) -> tuple[list[list[int]] | np.ndarray, int, str]:
    """The tokens of the one prompt, or the features of the one sound; how many there are, and of what."""
    import numpy as np

    if asked.features is not None:
        try:
            sounds = np.load(asked.features, allow_pickle=False)[None].astype(np.float32, copy=False)
        except Exception as error:  # anybody's file, of which NumPy raises what it likes
            raise PackageError(f"'{asked.features}' holds no array: {error}; write it with numpy.save.") from error
        return sounds, sounds.shape[-1], "frames"
    if asked.audio is not None:
        from fxport.ort_runner.sounds import SoundConfig, features_of, read_sound

        config, filters = SoundConfig.read(asked.folder)
        sounds = features_of(read_sound(asked.audio, config), config, filters)[None]
        return sounds, sounds.shape[-1], "frames"
    ids = ids_of(asked.ids or "") if tokenizer is None else tokenizer.encode(asked.prompt or "")
    return [ids], len(ids), "tokens"


def images_of(
    asked: Asked, generator: Generator, prompts: list[list[int]] | np.ndarray, tokenizer: Tokenizer | None
) -> list[list[Image]] | None:
    """The images of the one prompt; None where there are none."""
    if not asked.images:
        return None
    from fxport.ort_runner.pictures import PictureConfig, inputs_of, read_picture

    if generator.config.vision is None:
        raise PackageError(f"'{asked.folder}' reads no images; omit --image.")
    token = generator.config.vision.token
    if list(prompts[0]).count(token) != len(asked.images):
        name = repr(tokenizer.backend.id_to_token(token)) if tokenizer is not None else str(token)
        raise PackageError(f"The prompt needs {name} in the place of each image, {len(asked.images)} times.")
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
        raise PackageError(f"--ids '{text}' are no token ids; write 1,2,3.")
    return ids
