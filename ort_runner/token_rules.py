"""Settings for generation that change which token is the likeliest, computed as transformers does, in NumPy.

https://huggingface.co/docs/transformers/main_classes/text_generation
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fxport.diagnostics.limits import CONFIG, json_of, read_bounded
from fxport.ort_runner.json_values import count, counts, number
from fxport.ort_runner.package_config import PackageError

FILE = "generation_config.json"
NEVER = -np.inf


@dataclass(frozen=True, slots=True)
class Seen:
    """The tokens of texts so far.

    Attributes:
        ids: Tokens [batch, length], with those that only fill up.
        filled: Tokens at the beginning of each text that only fill up [batch].
        prompt: Length of the prompt.
        most: Length at which generation ends.
        stop: Tokens of which each ends a text.
        source: Tokens that the model was given, with those that only fill up [batch, source]; None for sounds.
    """

    ids: np.ndarray
    filled: np.ndarray
    prompt: int
    most: int
    stop: frozenset[int]
    source: np.ndarray | None = None

    @property
    def length(self) -> int:
        """Tokens of each text."""
        return self.ids.shape[1]


Rule = Callable[[np.ndarray, Any, Seen], None]
"""Changes scores [batch, vocabulary] in place, by the value of a setting."""


def _repetition(scores: np.ndarray, penalty: float, seen: Seen) -> None:
    for row, ids, filled in zip(scores, seen.ids, seen.filled, strict=True):
        used = np.unique(ids[filled:])
        row[used] = np.where(row[used] < 0, row[used] * np.float32(penalty), row[used] / np.float32(penalty))


def _no_repeat(scores: np.ndarray, size: int, seen: Seen) -> None:
    _no_repeat_of(seen.ids, scores, size, seen)


def _no_repeat_of_source(scores: np.ndarray, size: int, seen: Seen) -> None:
    if seen.source is not None:
        _no_repeat_of(seen.source, scores, size, seen)


def _no_repeat_of(earlier: np.ndarray, scores: np.ndarray, size: int, seen: Seen) -> None:
    """Forbid tokens that follow the last ones of each text anywhere in an earlier text."""
    if seen.length + 1 < size:
        return
    for row, ids, before in zip(scores, seen.ids.tolist(), earlier.tolist(), strict=True):
        last = ids[len(ids) + 1 - size :]
        row[[before[end] for end in range(size - 1, len(before)) if before[end + 1 - size : end] == last]] = NEVER


def _bad_words(scores: np.ndarray, words: tuple[tuple[int, ...], ...], seen: Seen) -> None:
    for *before, last in words:
        if [*before, last] in [[each] for each in seen.stop] or len(before) + 1 > max(seen.length, 1):
            continue
        ends = seen.ids[:, seen.length - len(before) :]
        scores[(ends == before).all(1), last] = NEVER


def _min_length(scores: np.ndarray, length: int, seen: Seen) -> None:
    if seen.length < length:
        _suppress(scores, seen.stop, seen)


def _min_new_tokens(scores: np.ndarray, tokens: int, seen: Seen) -> None:
    _min_length(scores, seen.prompt + tokens, seen)


def _forced_first(scores: np.ndarray, tokens: tuple[int, ...], seen: Seen) -> None:
    if seen.length == 1:
        _force(scores, tokens)


def _forced_last(scores: np.ndarray, tokens: tuple[int, ...], seen: Seen) -> None:
    if seen.length == seen.most - 1:
        _force(scores, tokens)


def _force(scores: np.ndarray, tokens: tuple[int, ...]) -> None:
    scores[:] = NEVER
    scores[:, list(tokens)] = 0


def _suppress(scores: np.ndarray, tokens: Collection[int], seen: Seen) -> None:
    scores[:, [each for each in tokens if each < scores.shape[1]]] = NEVER


def _factor(value: Any) -> float | None:
    if number(value) <= 0:
        raise ValueError(f"{value!r} is no number above 0")
    return None if value == 1 else float(value)


def _words(value: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list) or not all(isinstance(each, list) and each for each in value):
        raise ValueError(f"{value!r} is no list of lists of tokens")
    return tuple(map(counts, value))


def _number(value: Any) -> int | None:
    return count(value) or None


RULES: Mapping[str, tuple[Callable[[Any], Any], Rule]] = {
    "repetition_penalty": (_factor, _repetition),
    "no_repeat_ngram_size": (_number, _no_repeat),
    "encoder_no_repeat_ngram_size": (_number, _no_repeat_of_source),
    "bad_words_ids": (_words, _bad_words),
    "min_length": (_number, _min_length),
    "min_new_tokens": (_number, _min_new_tokens),
    "forced_bos_token_id": (counts, _forced_first),
    "forced_eos_token_id": (counts, _forced_last),
    "suppress_tokens": (counts, _suppress),
}
"""Settings in the order of transformers: a reader, which gives None for a value without effect, and the rule."""

AT_BEGIN = "begin_suppress_tokens"
START = "decoder_start_token_ids"
"""Tokens with which the decoder of an encoder-decoder begins: `fxport package` writes them to the other settings."""

NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "guidance_scale": (1,),
    "encoder_repetition_penalty": (1,),
    "sequence_bias": ({}, []),
    "exponential_decay_length_penalty": (),
    "watermarking_config": (),
    "diversity_penalty": (0,),
    "num_beam_groups": (1,),
    "penalty_alpha": (0,),
    "dola_layers": (),
    "constraints": ([],),
    "force_words_ids": ([],),
    "stop_strings": ([],),
    "token_healing": (False,),
}
"""Settings that change a text and have no rule here, and the values of each that change nothing."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The rules of a model.

    Attributes:
        values: Values of settings in `RULES`, in its order.
        at_begin: Tokens that are none of the first ones.
        start: Tokens with which the decoder of an encoder-decoder begins.
        search: How the folder asks for tokens to be chosen, where that is not the likeliest each time; else empty.
    """

    values: Mapping[str, Any]
    at_begin: tuple[int, ...] = ()
    start: tuple[int, ...] = ()
    search: str = ""

    @classmethod
    def read(cls, folder: Path) -> TokenRules:
        """The rules of a package; none where it has no such settings. Raises PackageError for what `of` refuses."""
        path = folder / FILE
        try:
            return cls.of(json_of(read_bounded(path, CONFIG), CONFIG) if path.is_file() else {})
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise PackageError(f"'{path}': {error}") from error

    @classmethod
    def of(cls, settings: Any) -> TokenRules:
        """The rules of settings for generation.

        Raises PackageError for a setting that changes a text and has no rule, or a value that is none of its setting.
        """
        if not isinstance(settings, Mapping):
            raise PackageError("the settings for generation are no table; save the model again.")
        for name, neutral in NEUTRAL.items():
            value = settings.get(name)
            if value is not None and value not in neutral:
                raise PackageError(
                    f"the setting for generation '{name}' is {value!r}, which fxport generate does not compute; remove "
                    f"it from {FILE}."
                )
        try:
            found = {name: read(settings[name]) for name, (read, _) in RULES.items() if settings.get(name) is not None}
            at_begin, start = (counts(settings.get(name)) for name in (AT_BEGIN, START))
        except ValueError as error:
            raise PackageError(f"a setting for generation has no such value: {error}; save the model again.") from error
        beams = settings.get("num_beams") or 1
        sampled = "samples" if settings.get("do_sample") is True else ""
        search = f"{beams} beams" if beams != 1 else sampled
        return cls({name: value for name, value in found.items() if value not in (None, ())}, at_begin, start, search)

    def apply(self, logits: np.ndarray, seen: Seen) -> np.ndarray:
        """The scores [batch, vocabulary] of next tokens, of their logits."""
        scores = np.array(logits, np.float32)
        for name, value in self.values.items():
            try:
                RULES[name][1](scores, value, seen)
            except IndexError as error:
                raise PackageError(f"'{name}' in {FILE} names a token that the model lacks; correct it.") from error
        first = seen.prompt + (seen.prompt <= 1 and "forced_bos_token_id" in self.values)
        if self.at_begin and seen.length == first:
            _suppress(scores, self.at_begin, seen)
        return scores
