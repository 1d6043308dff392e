"""Rotations that change beyond a length which no text of a package has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from fxport.exporter.language_models.package_files import DECODER_CONTEXTS, context_of

CHANGING, FIXED = "dynamic", "fixed"
"""Type of rotations in transformers that are computed anew for long texts, and a name that is none of its types."""

FIRST, NOW, COUNTED = "original_inv_freq", "inv_freq", "max_seq_len_cached"
"""Ends of the names of a module's attributes: frequencies of short texts and those that it has, and the tokens seen."""


@contextmanager
def rotations_of_context(model: Any) -> Iterator[None]:
    """Let rotations stay as they are: those of the type "dynamic", which change beyond the context of the model alone.

    A runtime takes no text that is longer than the context. Rotations that have changed already are left alone, and so
    are those that change within the context.
    """
    before = {module: module.rope_type for module in _changing(model)}
    for module, kinds in before.items():
        module.rope_type = {each: _fixed(kind) for each, kind in kinds.items()} if _is_table(kinds) else _fixed(kinds)
    try:
        yield
    finally:
        for module, kinds in before.items():
            module.rope_type = kinds


def _changing(model: Any) -> Iterator[Any]:
    config: Any = getattr(model, "config", None)
    if not hasattr(config, "get_text_config"):
        return
    text = config.get_text_config()
    context = context_of(text, DECODER_CONTEXTS)
    for module in model.modules():
        kinds: Any = getattr(module, "rope_type", None)
        most = getattr(module, "original_max_seq_len", None)
        if getattr(module, "config", None) is not text or not isinstance(most, int) or most < context:
            continue
        if CHANGING in {*(kinds.values() if _is_table(kinds) else (kinds,))} and _is_new(module, most):
            yield module


def _is_new(module: torch.nn.Module, most: int) -> bool:
    """Return True for rotations that are those of short texts."""
    held = dict(module.named_buffers(recurse=False)) | vars(module)
    counted = [value for name, value in held.items() if name.endswith(COUNTED)]
    firsts = [name for name in held if name.endswith(FIRST)]
    same = all(torch.equal(held[name], held[name.replace(FIRST, NOW)]) for name in firsts)
    return bool(firsts) and same and all(bool(each <= most) for each in counted)


def _fixed(kind: str) -> str:
    return FIXED if kind == CHANGING else kind


def _is_table(kinds: object) -> bool:
    return isinstance(kinds, Mapping)
