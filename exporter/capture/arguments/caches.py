"""The caches of transformers as containers of tensors, which torch.export takes as inputs and outputs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fxport.diagnostics.errors import FxportError

MODULE = "transformers.cache_utils"
LAYERED = ("DynamicCache", "StaticCache")
"""Caches that are a list of layers."""

PAIRED = "EncoderDecoderCache"
PARTS = ("self_attention_cache", "cross_attention_cache")

NAMES = {"keys": "key", "values": "value"}
"""Names of a layer's tensors in paths, where they differ from their own: `past_key_values.0.key`."""

DERIVED = frozenset({"dtype", "device", "_sliding_window_tensor"})
"""Attributes of a layer that follow from its tensors and its other attributes."""

LENGTH, COUNTED = "cumulative_length", "cumulative_length_int"
"""Attributes that count tokens. A Python number among them would be a constant of the graph."""


class PatchedCacheError(FxportError, TypeError):
    """A cache cannot be made anew of its tensors: it holds a function of its own, or one layer at two places."""


class CountedCacheError(FxportError, TypeError):
    """A cache counts its tokens in Python: a graph of it would hold for one length only. The text says which."""


def register_caches() -> None:
    """Declare the caches to PyTorch's pytrees where transformers is in use; elsewhere nothing is imported.

    The declaration stays: the reference run and the user's next call need it as well. A class that somebody has
    declared already is left as it is.
    """
    if "transformers" not in sys.modules:
        return
    try:
        module = importlib.import_module(MODULE)
    except ImportError:
        return
    for name in (*LAYERED, PAIRED):
        kind = getattr(module, name, None)
        if kind is not None and kind not in pytree.SUPPORTED_NODES:
            _register(kind, _Paired(kind) if name == PAIRED else _Layered(kind))


def is_layered(value: Any) -> bool:
    """Return whether a value is a cache of layers of transformers, and of no class derived from it."""
    return type(value).__module__ == MODULE and type(value).__name__ in LAYERED


def _register(kind: type, form: _Paired | _Layered) -> None:
    pytree.register_pytree_node(
        kind,
        lambda cache: ([child for _, child in form.children(cache)], form.context(cache)),
        form.restored,
        serialized_type_name=f"{kind.__module__}.{kind.__name__}",
        flatten_with_keys_fn=lambda cache: (_keyed(form.children(cache)), form.context(cache)),
    )


def _keyed(children: list[tuple[str, Any]]) -> list[tuple[Any, Any]]:  # torch's keys do not keep its own protocol
    return [(pytree.MappingKey(name), child) for name, child in children]


class _Paired:
    """A cache of two: what the decoder has seen of itself, and what it reads of the encoder."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def children(self, cache: Any) -> list[tuple[str, Any]]:
        return [(part, getattr(cache, part)) for part in PARTS]

    def context(self, cache: Any) -> Any:
        return None

    def restored(self, children: Any, context: Any) -> Any:
        return self.kind(*children)


class _Layered:
    """A cache of layers. The tensors of each are children; the rest of a layer is the context."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def children(self, cache: Any) -> list[tuple[str, Any]]:
        return [(str(index), _tensors(layer)) for index, layer in enumerate(cache.layers)]

    def context(self, cache: Any) -> Any:
        own = {name: value for name, value in vars(cache).items() if name != "layers"}
        _require_plain(cache, own)
        if len({*map(id, cache.layers)}) < len(cache.layers):
            raise PatchedCacheError(f"this '{type(cache).__name__}' holds one layer at two places; give each its own")
        return [own, [(type(layer), _settings(layer)) for layer in cache.layers]]

    def restored(self, children: Any, context: Any) -> Any:
        own, layers = context
        cache = object.__new__(self.kind)
        made = [_layer(kind, settings, held) for (kind, settings), held in zip(layers, children, strict=True)]
        vars(cache).update(own, layers=made)
        return cache


def _tensors(layer: Any) -> dict[str, Any]:
    """Return the tensors of a layer by name: keys and values, or the states of a layer that is no attention."""
    found: dict[str, Any] = {}
    attributes: dict[str, Any] = vars(layer)
    for name, value in attributes.items():
        if isinstance(value, torch.Tensor) and name not in DERIVED:
            found[NAMES.get(name, name)] = value
        elif isinstance(value, Mapping) and any(isinstance(each, torch.Tensor) for each in value.values()):
            found[name] = {str(key): each for key, each in value.items() if each is not None}
    return found


def _settings(layer: Any) -> dict[str, Any]:
    """Return the state of a layer that is no tensor; raise CountedCacheError for a count that no tensor tells."""
    if COUNTED in vars(layer):
        raise CountedCacheError(
            f"'{type(layer).__name__}' counts its tokens in Python; use a DynamicCache, or a StaticCache of a model "
            "without sliding windows"
        )
    held = _tensors(layer)
    _require_plain(layer, vars(layer))
    return {
        name: value
        for name, value in vars(layer).items()
        if NAMES.get(name, name) not in held and name not in DERIVED and name != LENGTH
    }


def _require_plain(holder: Any, attributes: Mapping[str, Any]) -> None:
    """Raise PatchedCacheError for a function among the attributes of a cache or a layer."""
    own = [name for name, value in attributes.items() if isinstance(value, (FunctionType, MethodType, partial))]
    if own:
        raise PatchedCacheError(
            f"'{own[0]}' of this '{type(holder).__name__}' is a function of its own, and may hold tensors of the "
            "example; define it in a class, or replace it in `forward`"
        )


def _layer(kind: type, settings: Mapping[str, Any], held: Mapping[str, Any]) -> Any:
    """Make a layer of a kind from its settings and tensors, with what follows from them."""
    layer = object.__new__(kind)
    own = {ours: theirs for theirs, ours in NAMES.items()}
    vars(layer).update(settings)
    for name, value in held.items():
        full = {int(key): each for key, each in value.items()} if isinstance(value, Mapping) else value
        setattr(layer, own.get(name, name), full)
    tensors = [leaf for leaf in pytree.tree_leaves(dict(held)) if isinstance(leaf, torch.Tensor)]
    if tensors:
        layer.dtype, layer.device = tensors[0].dtype, tensors[0].device
    window = settings.get("sliding_window")
    if window is not None:
        layer._sliding_window_tensor = torch.tensor(window, dtype=torch.long)
        if LENGTH not in held:
            layer.cumulative_length = held["key"].shape[-2] if "key" in held else 0
    return layer
