"""The files of a package beside the model: its configuration for onnxruntime-genai, and those of the tokenizer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir

from fxport.exporter.language_models.generation import CACHE, IDS, LOGITS, MASK, PRESENT
from fxport.ort_runner.package_config import FILE, PackageError
from fxport.ort_runner.token_rules import FILE as GENERATION
from fxport.ort_runner.token_rules import START, TokenRules

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "spiece.model",
    "source.spm",
    "target.spm",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
)
"""Files that `save_pretrained` of tokenizers writes. One of the first seven has the vocabulary."""

VOCABULARIES = TOKENIZER_FILES[:7]

CONTEXTS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
"""Keys of configurations for the most tokens that a text may have."""

DECODER_CONTEXTS = ("max_target_positions", "max_decoder_position_embeddings", *CONTEXTS)
"""The same for what is generated; an encoder may take more or fewer."""

UNLIMITED = 1 << 20
"""Tokens of a context that nothing limits: positions are computed, and none of a table."""

GENAI_TYPE = "decoder"
"""Type in onnxruntime-genai of a decoder that feeds ids, mask and cache, whatever its architecture."""

NO_PAD = (None, -1)
"""Values of configurations without a token that fills up; early conversions of LLaMA have -1."""

SESSION: Mapping[str, Any] = {"log_id": "onnxruntime-genai", "provider_options": []}


class UnequalLayers(Exception):
    """The layers of the cache have not one shape, which onnxruntime-genai takes for granted."""


def has_tokenizer(folder: Path) -> bool:
    """Return True for a folder with the files of a tokenizer."""
    return any((folder / name).is_file() for name in VOCABULARIES)


def copy_tokenizer(source: Path, target: Path) -> list[Path]:
    """Copy the files of a tokenizer as they are."""
    found = [source / name for name in TOKENIZER_FILES if (source / name).is_file()]
    return [Path(shutil.copyfile(each, target / each.name)) for each in found]


def write_generation(model: Any, target: Path, start: Sequence[int] = ()) -> list[Path]:
    """Write the settings for generation that a model has, and the tokens with which an encoder-decoder begins."""
    settings = settings_of(model)
    if not settings:
        return []
    path = target / GENERATION
    begins = {START: list(start)} if start else {}
    path.write_text(json.dumps({**settings, **begins}, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return [path]


def settings_of(model: Any) -> dict[str, Any]:
    """The settings for generation that a model has, as a table; none where it has none."""
    settings = getattr(model, "generation_config", None)
    found: dict[str, Any] = {} if settings is None else json.loads(settings.to_json_string(use_diff=False))
    return found


def require_rules(model: Any) -> TokenRules:
    """The rules by which tokens are chosen. Raises PackageError for settings that the runner does not compute."""
    return TokenRules.of(settings_of(model))


def write_description(described: Mapping[str, Any], target: Path) -> Path:
    """Write what a runtime has to know."""
    path = target / FILE
    path.write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    return path


def config_of(
    model: Any, graph: ir.Graph, kind: str = GENAI_TYPE, *, uniform: bool, in_place: bool = False
) -> dict[str, Any]:
    """The configuration of a package, as onnxruntime-genai reads it.

    With `uniform`, raises UnequalLayers where layers of the cache differ.
    """
    text = model.config.get_text_config()
    cache = [value for value in graph.inputs if str(value.name).startswith(f"{CACHE}.")]
    shapes = {tuple(value.shape or ())[1::2] for value in cache}
    if uniform and len(shapes) > 1:
        raise UnequalLayers(", ".join(sorted(map(str, shapes))))
    heads, size = next(iter(sorted(shapes, key=str)))
    assert isinstance(heads, int)  # `generation_step` makes the other axes dynamic alone
    assert isinstance(size, int)
    decoder = {
        "session_options": SESSION,
        "filename": "model.onnx",
        "head_size": size,
        "hidden_size": int(text.hidden_size),
        "inputs": {
            "input_ids": IDS,
            "attention_mask": MASK,
            "past_key_names": f"{CACHE}.%d.key",
            "past_value_names": f"{CACHE}.%d.value",
        },
        "outputs": {
            "logits": LOGITS,
            "present_key_names": f"{PRESENT}.%d.key",
            "present_value_names": f"{PRESENT}.%d.value",
        },
        "num_attention_heads": int(text.num_attention_heads),
        "num_hidden_layers": len(cache) // 2,
        "num_key_value_heads": heads,
    }
    return described(model, decoder, kind, in_place=in_place)


def described(model: Any, decoder: Mapping[str, Any], kind: str, *, in_place: bool = False) -> dict[str, Any]:
    """The configuration of a package with this decoder: its tokens, its context, and the settings of the search."""
    text = model.config.get_text_config()
    length = context_of(text, DECODER_CONTEXTS)
    settings = getattr(model, "generation_config", None)
    ends = _of(settings, text, "eos_token_id")
    first = ends[0] if isinstance(ends, list) and ends else ends if isinstance(ends, int) else 0
    pad = _of(settings, text, "pad_token_id")
    pad, name = (first, "eos_token_id") if pad in NO_PAD else (pad, "pad_token_id")
    said = f"{name} of {_file_of(settings)} is {pad}"
    if not isinstance(pad, int):
        raise PackageError(f"{said}, which is no single token; correct it.")
    if not 0 <= pad < text.vocab_size:
        raise PackageError(f"{said}, and the vocabulary has {int(text.vocab_size)} tokens; correct it.")
    return {
        "model": {
            "bos_token_id": _of(settings, text, "bos_token_id"),
            "context_length": length,
            "decoder": dict(decoder),
            "eos_token_id": [] if ends is None else ends,
            "pad_token_id": pad,
            "type": kind,
            "vocab_size": int(text.vocab_size),
        },
        "search": {**_search(settings), "max_length": length, "past_present_share_buffer": in_place},
    }


def _file_of(settings: Any) -> str:
    """The file that has the tokens: transformers makes the settings from the configuration where they have no file."""
    return "config.json" if settings is None or getattr(settings, "_from_model_config", False) else GENERATION


def context_of(config: Any, names: Sequence[str] = CONTEXTS) -> int:
    """The most tokens that a text may have."""
    found = (getattr(config, name, None) for name in names)
    return next((length for length in found if isinstance(length, int) and length > 0), UNLIMITED)


SEARCH: Mapping[str, tuple[str, Any]] = {
    "do_sample": ("do_sample", False),
    "num_beams": ("num_beams", 1),
    "num_return_sequences": ("num_return_sequences", 1),
    "repetition_penalty": ("repetition_penalty", 1.0),
    "temperature": ("temperature", 1.0),
    "top_k": ("top_k", 50),
    "top_p": ("top_p", 1.0),
}
"""Settings of the search in onnxruntime-genai: what transformers calls them, and the default of both."""


def _search(settings: Any) -> dict[str, Any]:
    found = {name: getattr(settings, theirs, None) for name, (theirs, _) in SEARCH.items()}
    return {name: SEARCH[name][1] if value is None else value for name, value in found.items()}


def _of(settings: Any, config: Any, name: str) -> Any:
    """A token of the settings for generation if they have it, else of the configuration."""
    found = getattr(settings, name, None)
    return getattr(config, name, None) if found is None and settings is None else found
