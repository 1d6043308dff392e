"""Lengths after which `generate` of a model forgets its cache and reads the text anew."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from fxport.exporter.capture.arguments.caches import MODULE
from fxport.exporter.language_models.generation import CACHE, IDS, MASK
from fxport.ort_runner.package_config import READ_ANEW, PackageError

SWITCHES = ("original_max_position_embeddings",)
"""Keys of configurations for a number of tokens after which a model may compute its positions in another way."""

GENAI_TYPES: Mapping[int, str] = {4096: "phi3"}
"""Types in onnxruntime-genai of decoders that read a single text anew, by the tokens after which it does so."""

OWN_TYPE = "decoder-that-reads-anew"
"""Type of the others, which onnxruntime-genai does not run."""


def read_anew_after(model: Any) -> int | None:
    """Return the most tokens after which `generate` keeps the cache; None where it always does.

    Models with two sets of rotations (LongRoPE) take the other set for a longer text, so that the keys in the cache are
    no longer those of the text. `prepare_inputs_for_generation` is asked with caches of the lengths that the
    configuration names. Raises PackageError where it forgets caches at other lengths too.
    """
    for tokens in sorted({*_lengths(model.config.get_text_config().to_dict())}):
        keeps = [_keeps(model, total) for total in (tokens, tokens + 1, tokens + 2)]
        if keeps == [True, False, True]:
            return tokens
        if not all(keeps):
            raise PackageError(
                f"'{type(model).__name__}' forgets its cache at lengths about {tokens} in a way that a package cannot "
                "follow; use prefill and decode_step."
            )
    return None


def notes_of(model: Any) -> dict[str, str]:
    """The entries of a graph's metadata that tell the runner."""
    tokens = read_anew_after(model)
    return {} if tokens is None else {READ_ANEW: str(tokens)}


def genai_type(tokens: int | None, usual: str) -> str | None:
    """The type in onnxruntime-genai of a decoder that reads anew after some tokens; None where it has no place."""
    return usual if tokens is None else GENAI_TYPES.get(tokens)


def _lengths(settings: Mapping[str, Any]) -> Iterator[int]:
    for name, value in settings.items():
        if name in SWITCHES and isinstance(value, int) and value > 1:
            yield value
        elif isinstance(value, Mapping):
            yield from _lengths(value)


def _keeps(model: Any, total: int) -> bool:
    """Return True if the last of `total` tokens is taken with the cache of those before."""
    cache = importlib.import_module(MODULE).DynamicCache()
    held = torch.zeros(1, 1, total - 1, 1)
    cache.update(held, held, 0)
    ids = torch.zeros(1, total, dtype=torch.int64)
    given = {CACHE: cache, MASK: torch.ones_like(ids), "use_cache": True, "next_sequence_length": 1}
    found = model.prepare_inputs_for_generation(ids, **given)
    return found.get(CACHE) is cache and found[IDS].shape[1] == 1
