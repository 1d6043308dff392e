"""A text of the user's as a measure: how much likelier or unlikelier a package finds it than eager PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fxport.diagnostics.messages import error_line
from fxport.exporter.language_models.package_files import context_of
from fxport.exporter.language_models.verdict import Eager
from fxport.ort_runner.generation import Generator
from fxport.ort_runner.package_config import PackageError
from fxport.ort_runner.tokenizer import Tokenizer
from fxport.ort_runner.tokenizer_trial import require_bounded

WINDOW = 128
"""Tokens of the text that are taken at once, each window without those before it."""

MOST = 1024
"""Tokens of the text that are taken, from its beginning."""

MOST_BYTES = 1 << 20
"""Bytes of the text that are read, from its beginning."""


@dataclass(frozen=True, slots=True)
class TextScore:
    """Result of scoring a text.

    Attributes:
        tokens: Tokens that were predicted.
        perplexity: Of the package: e to the mean of the negative logarithms of the tokens' probabilities.
        eager_perplexity: Of eager PyTorch with the weights before rounding.
        divergence: Mean Kullback-Leibler divergence of the package's probabilities from eager's, in nats a token.
    """

    tokens: int
    perplexity: float
    eager_perplexity: float
    divergence: float

    def __str__(self) -> str:
        both = f"perplexity {self.perplexity:.4g}, of eager PyTorch {self.eager_perplexity:.4g}"
        return f"{self.tokens} tokens of the text: {both}; KL divergence {self.divergence:.2g} nats a token"


def windows_of(text: Path, tokenizer: Path | None, model: Any) -> list[list[int]]:
    """The tokens of a file in windows of at most `WINDOW`, or of the model's context if that is shorter.

    Raises PackageError for a file that cannot be read, is no text, or has fewer than two tokens, and where there is no
    tokenizer, or one of another model.
    """
    if tokenizer is None:
        raise PackageError(f"'{text}' takes a tokenizer to be read; name its folder with --tokenizer.")
    try:
        with text.open("rb") as file:
            words = file.read(MOST_BYTES).decode(
                "utf-8", errors="strict" if text.stat().st_size <= MOST_BYTES else "ignore"
            )
    except (OSError, UnicodeDecodeError) as error:
        raise PackageError(f"'{text}' cannot be read as text: {error_line(error)}; name a file in UTF-8.") from error
    require_bounded(tokenizer, [words])
    tokens = Tokenizer(tokenizer).encode(words)[:MOST]
    settings = model.config.get_text_config()
    if max(tokens, default=0) >= settings.vocab_size:
        raise PackageError(
            f"'{tokenizer}' gives token {max(tokens)} of {settings.vocab_size} that the model knows; name its own."
        )
    size = max(2, min(WINDOW, context_of(settings)))
    windows = [tokens[start : start + size] for start in range(0, len(tokens), size)]
    windows = [window for window in windows if len(window) > 1]
    if not windows:
        raise PackageError(f"'{text}' has fewer than two tokens; name a longer text.")
    return windows


def eager_logits(model: Any, windows: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """The logits of eager PyTorch for each window, float32 [tokens - 1, vocabulary]."""
    return [Eager(model).feed(np.array([window], np.int64))[0, :-1] for window in windows]


def text_score(folder: Path, provider: str, windows: Sequence[Sequence[int]], eager: Sequence[np.ndarray]) -> TextScore:
    """Score a text by a package, beside the logits of eager PyTorch. Raises Failure where ONNX Runtime does."""
    package = Generator(folder, provider)
    ours, theirs, apart = [], [], []
    for window, logits in zip(windows, eager, strict=True):
        package.reset()
        ids = np.array([window], np.int64)
        got, want = (_log_softmax(each) for each in (package.feed(ids)[0, :-1], logits))
        following = ids[0, 1:, None]
        ours.append(np.take_along_axis(got, following, -1))
        theirs.append(np.take_along_axis(want, following, -1))
        apart.append((np.exp(want) * (want - got)).sum(-1))
    found = [np.concatenate(each) for each in (ours, theirs)]
    divergence = float(np.concatenate(apart).mean())
    perplexity, eager_perplexity = (float(np.exp(-each.mean())) for each in found)
    return TextScore(len(found[0]), perplexity, eager_perplexity, max(divergence, 0.0))


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    found: np.ndarray = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return found
