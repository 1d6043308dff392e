"""Text architectures of transformers as packages: the tokens of `generate`, by our runner and by onnxruntime-genai.

    pip install onnxruntime-genai                                   (without it, our runner alone)
    python -m benchmarks.text_architectures                         every family of tests/cases/language_models.py
    python -m benchmarks.text_architectures Llama Qwen3             some of them
    python -m benchmarks.text_architectures --part 2/4 --seconds 600

Each family is a small model with random weights. Printed is a row of Markdown for each: its type, how many of the 64
tokens of two texts our runner gives as eager PyTorch does, how many of one text onnxruntime-genai does, and the largest
error of a logit. A text ends in onnxruntime-genai at token 0, since the models name none that ends it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fxport import Stop, package
from fxport.diagnostics.errors import FxportError
from fxport.ort_runner.generation import Generator
from fxport.ort_runner.package_config import PackageError
from tests.cases.language_models import MODELS, made

PROMPTS = ([3, 14, 15, 92, 65, 35], [27, 18, 28])
NEW = 64
END = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="names of rows; all by default")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="each N-th family, beginning with the I-th")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further family after these")
    asked = parser.parse_args()
    first, step = map(int, asked.part.split("/"))
    begun = time.monotonic()
    print("| family | type | tokens | onnxruntime-genai | largest error of a logit |\n|---|---|---|---|---|")
    for name in (asked.families or list(MODELS))[first - 1 :: step]:
        if time.monotonic() - begun > asked.seconds:
            print(f"not begun: {name} and those after it")
            break
        print(row(name), flush=True)


def row(name: str) -> str:
    """The row of one family."""
    model = made(name)
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = packaged(model, Path(folder) / "package")
        except (FxportError, Stop) as error:
            return f"| {name} | {model.config.model_type} | refused: {error} | | |"
        want = generated(model)
        got = np.stack(list(Generator(found.folder, "cpu").greedy(PROMPTS, NEW, stop=frozenset())), 1).tolist()
        alike = sum(one == other for pair in zip(want, got, strict=True) for one, other in zip(*pair, strict=True))
        told = by_genai(found.folder, want[0]) if found.is_uniform else "no place"
    return f"| {name} | {model.config.model_type} | {alike} of {2 * NEW} | {told} | {found.error:.1e} |"


@dataclass(frozen=True, slots=True)
class Made:
    """A package, and whether onnxruntime-genai has a place for it."""

    folder: Path
    error: float
    is_uniform: bool


def packaged(model: Any, folder: Path) -> Made:
    """The package for onnxruntime-genai, or else for our runner."""
    try:
        found, is_uniform = package(model, folder, runtime="genai"), True
    except PackageError:
        found, is_uniform = package(model, folder, runtime="ort"), False
    assert found.verdict is not None
    return Made(folder, found.verdict.error, is_uniform)


def generated(model: Any) -> list[list[int]]:
    """The new tokens of `generate`, for prompts that are filled up on the left."""
    longest = max(map(len, PROMPTS))
    ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in PROMPTS])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in PROMPTS])
    found = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=NEW, min_new_tokens=NEW)
    return found[:, -NEW:].tolist()


def by_genai(folder: Path, want: Sequence[int]) -> str:
    """Tokens of the first text that onnxruntime-genai gives alike, of those until it ends."""
    if importlib.util.find_spec("onnxruntime_genai") is None:
        return "not installed"
    og: Any = importlib.import_module("onnxruntime_genai")
    model = og.Model(str(folder))
    settings = og.GeneratorParams(model)
    settings.set_search_options(max_length=len(PROMPTS[0]) + NEW, do_sample=False)
    generator = og.Generator(model, settings)
    generator.append_tokens(np.array(PROMPTS[:1], np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    got = [int(each) for each in generator.get_sequence(0)][len(PROMPTS[0]) :]
    until = [*want, END].index(END) if len(got) < NEW else NEW
    return f"{sum(one == other for one, other in zip(got, want, strict=False))} of {max(until, len(got))}"


if __name__ == "__main__":
    main()
