"""The inputs that the runner makes of texts, held against those of transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fxport.exporter.sources.pretrained import tokenizer_of
from fxport.ort_runner.package_config import PackageError
from fxport.ort_runner.text_config import SCORES, TextConfig
from fxport.ort_runner.text_model import Text, TextTokenizer

TEXTS = (
    "The quick brown fox.",
    "Größe, naïve café — «цена» 42 €, 模型 and  two   spaces!\n",
    "One of many words. " * 400,
)
"""Texts of which both tokenizers have to give the same tokens; the last one is cut."""


def require_same_tokens(folder: Path, config: TextConfig) -> None:
    """Raise PackageError where the runner makes other inputs of texts than transformers does."""
    ours, theirs = TextTokenizer(folder, config), tokenizer_of(folder)
    texts = [text.lower() if config.lower_case else text for text in TEXTS]
    firsts = [texts[0]] * len(texts) if config.output == SCORES else None
    rows = [slice(index, index + 1) for index in range(len(texts))] if theirs.pad_token_id is None else [slice(None)]
    for row in rows:
        both = (texts[row],) if firsts is None else (firsts[row], texts[row])
        want = theirs(
            *both, padding=theirs.pad_token_id is not None, truncation=True, max_length=config.max_length,
            return_tensors="np",
        )  # fmt: skip
        given: list[Text] = list(TEXTS[row]) if firsts is None else [(TEXTS[0], text) for text in TEXTS[row]]
        got = ours.encode(given)
        if other := [name for name in config.inputs if name not in want or not np.array_equal(want[name], got[name])]:
            raise PackageError(
                f"'{folder}': the library tokenizers gives other '{other[0]}' than transformers for the file "
                "tokenizer.json; save the tokenizer again with tokenizer.save_pretrained."
            )
