"""The inputs that the runner makes of texts, held against those of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fxport.diagnostics.messages import error_line
from fxport.exporter.sources.pretrained import PretrainedError, tokenizer_of
from fxport.ort_runner.package_config import IDS, TOKENIZER, PackageError
from fxport.ort_runner.text_config import SCORES, TextConfig
from fxport.ort_runner.text_model import Text, TextTokenizer
from fxport.ort_runner.tokenizer import PANIC, Tokenizer
from fxport.ort_runner.tokenizer_trial import require_bounded

TEXTS = (
    "The quick brown fox.",
    "Größe, naïve café — «цена» 42 €, 模型 and  two   spaces!\n",
    "One of many words. " * 400,
)
"""Texts of which both tokenizers have to give the same tokens; the last one is cut."""

MOST = 500
"""Characters of a text for a model that generates, whose prompts are not cut."""


def require_same_ids(folder: Path) -> None:
    """Raise PackageError where the file of a tokenizer gives other tokens of a text than transformers does.

    Where transformers knows no tokenizer in the folder, the file is all that there is.
    """
    if not (folder / TOKENIZER).is_file():
        return
    texts = [text[:MOST] for text in TEXTS]
    require_bounded(folder, texts)
    try:
        theirs = tokenizer_of(folder)
    except PretrainedError:
        return
    ours = Tokenizer(folder)
    for text in texts:
        if ours.encode(text) != list(_inputs_of(theirs, ([text],), None, folder)[IDS][0]):
            raise PackageError(_different(folder, IDS))


def require_same_tokens(folder: Path, config: TextConfig) -> None:
    """Raise PackageError where the runner makes other inputs of texts than transformers does."""
    require_bounded(folder, TEXTS)
    ours, theirs = TextTokenizer(folder, config), tokenizer_of(folder)
    texts = [text.lower() if config.lower_case else text for text in TEXTS]
    firsts = [texts[0]] * len(texts) if config.output == SCORES else None
    rows = [slice(index, index + 1) for index in range(len(texts))] if theirs.pad_token_id is None else [slice(None)]
    for row in rows:
        both = (texts[row],) if firsts is None else (firsts[row], texts[row])
        want = _inputs_of(theirs, both, config.max_length, folder)
        given: list[Text] = list(TEXTS[row]) if firsts is None else [(TEXTS[0], text) for text in TEXTS[row]]
        got = ours.encode(given)
        if other := [name for name in config.inputs if name not in want or not np.array_equal(want[name], got[name])]:
            raise PackageError(_different(folder, other[0]))


def _different(folder: Path, name: str) -> str:
    return (
        f"'{folder}': the library tokenizers gives other '{name}' than transformers for the file tokenizer.json; save "
        "the tokenizer again with tokenizer.save_pretrained."
    )


def _inputs_of(
    tokenizer: Any, texts: tuple[list[str], ...], length: int | None, folder: Path
) -> Mapping[str, np.ndarray]:
    """The inputs that a tokenizer of transformers makes, cut to a length. Raises PackageError where it fails."""
    cut: dict[str, Any] = {} if length is None else {"truncation": True, "max_length": length}
    padding = tokenizer.pad_token_id is not None
    try:
        return tokenizer(*texts, padding=padding, return_tensors="np", **cut)
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == PANIC:
            raise PackageError(f"'{folder}': its tokenizer fails in transformers: {error_line(error)}.") from error
        raise
