"""Example calls of language models of transformers: the prompt at once, and one step of decoding with its cache.

What comes back is `(model, args, kwargs, dynamic_shapes)`: what `export` takes and what a SOURCE function of the
command line returns. Which dimensions of a cache grow is found by running the model at two sizes, so that any cache
will do.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, NamedTuple

import torch
from torch.export import ShapesCollection
from torch.utils import _pytree as pytree

from fxport.diagnostics.errors import FxportError
from fxport.exporter.capture.arguments.caches import register_caches
from fxport.exporter.capture.fake import fake_weights, with_values

BATCH, SEQUENCE, PAST, TOTAL, SOURCE = "batch", "sequence", "past", "total", "source"
"""Names of dimensions: `total` is the length of the attention mask, past and new tokens together."""


class Example(NamedTuple):
    """One call of a model, and which of its dimensions shall stay dynamic.

    `export(*example[:3], dynamic_shapes=example.dynamic_shapes)`, or a function of yours that returns it as SOURCE.
    """

    model: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic_shapes: Any


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of an example, in sequences and tokens."""

    batch: int
    past: int
    source: int


CACHES = ("past_key_values", "cache_params")
"""Names of the cache in models' results and arguments: with keys and values, and of states alone."""

SMALL, OTHER = Sizes(2, 7, 5), Sizes(3, 9, 6)
"""The example, and another size in everything, which shows what depends on what."""


class NoCacheError(FxportError, ValueError):
    """A model that does not return a cache. The text says which."""


def prefill(model: torch.nn.Module, *, batch: int = 2, sequence: int = 7) -> Example:
    """The whole prompt in one call: logits and the cache that decoding goes on with.

    `input_ids` and `attention_mask` are int64 [batch, sequence], both dynamic; a model without a mask goes without.
    Prompts of several lengths are padded on the left, with 0 in the mask; positions are counted without the padding.
    An encoder-decoder takes `decoder_input_ids` and the encoder's `encoder_outputs` instead (see `encode`).
    """
    register_caches()
    sizes = Sizes(batch, 0, sequence)
    if is_encoder_decoder(model):
        kwargs = {"decoder_input_ids": _ids(model, batch, sequence), **_encoded(model, sizes)}
        named = {"decoder_input_ids": (BATCH, SEQUENCE), "attention_mask": (BATCH, SOURCE)}
    else:
        kwargs = {"input_ids": _ids(model, batch, sequence), "attention_mask": _mask(batch, sequence)}
        named = {"input_ids": (BATCH, SEQUENCE), "attention_mask": (BATCH, SEQUENCE)}
    kwargs |= {"use_cache": True, "return_dict": True}
    return _example(_positioned(model), _accepted(model, kwargs), named)


def decode_step(model: torch.nn.Module, *, batch: int = 2, past: int = 7) -> Example:
    """One new token for each sequence, given the cache of `past` tokens: logits and the cache with one more.

    Dynamic are the batch, the length of the cache (`past`) and that of the mask (`total`: past + 1); for an
    encoder-decoder also the length of what was encoded (`source`). The cache is of the model's own class, as its
    prefill returns it. Where layers have sliding windows, the step is one for windows that are full, or for those that
    are not, as `past` says. Raises NoCacheError for a model that returns no cache.
    """
    register_caches()
    first, second = (_step(model, sizes) for sizes in (Sizes(batch, past, SMALL.source), OTHER))
    if is_encoder_decoder(model):
        named = {"decoder_input_ids": (BATCH,), "attention_mask": (BATCH, SOURCE)}
    else:
        named = {"input_ids": (BATCH,), "attention_mask": (BATCH, TOTAL)}
    return _example(_positioned(model), first, named, second, {batch: BATCH, past: PAST, SMALL.source: SOURCE}, OTHER)


def encode(model: torch.nn.Module, *, batch: int = 2, source: int = 5) -> Example:
    """The encoder of an encoder-decoder: `last_hidden_state` for `input_ids` and `attention_mask`, both dynamic."""
    encoder: Any = model.get_encoder()  # type: ignore[operator]  # transformers' own interface
    kwargs = {"input_ids": _ids(model, batch, source), "attention_mask": _mask(batch, source)}
    return _example(encoder, kwargs, {"input_ids": (BATCH, SOURCE), "attention_mask": (BATCH, SOURCE)})


def _step(model: torch.nn.Module, sizes: Sizes) -> dict[str, Any]:
    """The arguments of one step after `past` tokens that the model has seen."""
    if is_encoder_decoder(model):
        shared = _encoded(model, sizes)
        name, cache = _cache(model, {"decoder_input_ids": _ids(model, sizes.batch, sizes.past), **shared})
        new = {"decoder_input_ids": _ids(model, sizes.batch, 1), **shared}
    else:
        name, cache = _cache(model, {"input_ids": _ids(model, sizes.batch, sizes.past)})
        new = {"input_ids": _ids(model, sizes.batch, 1)}
        if name == CACHES[0]:  # where only states are kept, the mask would be one of new tokens, of which all are there
            new["attention_mask"] = _mask(sizes.batch, sizes.past + 1)
    return _accepted(model, {**new, name: cache, "use_cache": True, "return_dict": True})


def _cache(model: torch.nn.Module, kwargs: Mapping[str, Any]) -> tuple[str, Any]:
    """The cache after these tokens, and what the model calls it. That of a model without memory has values of ours."""
    with torch.no_grad(), fake_weights(model):
        result = model(**kwargs, use_cache=True, return_dict=True)
    for name in CACHES:
        if getattr(result, name, None) is not None:
            return name, with_values(getattr(result, name))
    raise NoCacheError(f"'{type(model).__name__}' returns no 'past_key_values', so there is no step to export.")


def _positioned(model: torch.nn.Module) -> torch.nn.Module:
    """The model, of the same tensors, whose positions and count of tokens follow from the mask: padding is no token,
    and a sliding window that is full holds fewer tokens than there were. An encoder-decoder counts by itself.
    """
    cls = type(model)
    if is_encoder_decoder(model) or "attention_mask" not in inspect.signature(cls.forward).parameters:
        return model

    @wraps(cls.forward)
    def forward(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        mask: torch.Tensor | None = kwargs.get("attention_mask")
        if mask is None:
            return cls.forward(self, *args, **kwargs)
        seen = mask.shape[1] - kwargs["input_ids"].shape[1]
        for layer in getattr(kwargs.get(CACHES[0]), "layers", ()):
            if getattr(layer, "is_sliding", False):
                layer.cumulative_length = seen
        if "position_ids" in inspect.signature(cls.forward).parameters:
            kwargs["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)[:, seen:]
        return cls.forward(self, *args, **kwargs)

    positioned = copy.copy(model)
    positioned.__class__ = type(cls.__name__, (cls,), {"forward": forward, "__module__": cls.__module__})
    return positioned


def _encoded(model: torch.nn.Module, sizes: Sizes) -> dict[str, Any]:
    """Run the encoder on a source; return its outputs and the mask of the source."""
    mask = _mask(sizes.batch, sizes.source)
    with torch.no_grad(), fake_weights(model):
        encoder: Any = model.get_encoder()  # type: ignore[operator]  # transformers' own interface
        outputs = encoder(input_ids=_ids(model, sizes.batch, sizes.source), attention_mask=mask, return_dict=True)
    return {"encoder_outputs": with_values(outputs), "attention_mask": mask}


def _ids(model: torch.nn.Module, batch: int, length: int) -> torch.Tensor:
    """Token ids of the model's vocabulary, the same each time."""
    config: Any = model.config
    vocabulary = config.get_text_config().vocab_size
    return (torch.arange(batch * length).reshape(batch, length) * 7 + 1) % vocabulary


def _mask(batch: int, length: int) -> torch.Tensor:
    return torch.ones(batch, length, dtype=torch.int64)


def is_encoder_decoder(model: torch.nn.Module) -> bool:
    """Return True for an encoder-decoder of transformers."""
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def _accepted(model: torch.nn.Module, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that forward has: a few models take no mask."""
    parameters = inspect.signature(model.forward).parameters
    return {name: value for name, value in kwargs.items() if name in parameters}


def _example(
    model: torch.nn.Module,
    kwargs: dict[str, Any],
    named: Mapping[str, tuple[str, ...]],
    other: Mapping[str, Any] | None = None,
    sizes: Mapping[int, str] | None = None,
    others: Sizes = OTHER,
) -> Example:
    """The example with names for its dimensions: for arguments by `named`, within containers by what changes."""
    shapes = ShapesCollection()
    for name, dims in named.items():
        if name in kwargs:
            shapes[kwargs[name]] = dict(enumerate(dims))
    for name, value in kwargs.items():
        if isinstance(value, torch.Tensor) or not pytree.tree_leaves(value):
            continue
        leaves = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        if other is None:
            for leaf in leaves:  # what an encoder gave: [batch, source, features]
                shapes[leaf] = {0: BATCH, 1: SOURCE}
            continue
        twins = [leaf for leaf in pytree.tree_leaves(other[name]) if isinstance(leaf, torch.Tensor)]
        for leaf, twin in zip(leaves, twins, strict=True):
            changed = [axis for axis in range(leaf.dim()) if leaf.shape[axis] != twin.shape[axis]]
            if changed:
                shapes[leaf] = {
                    axis: _name(leaf.shape[axis], twin.shape[axis], sizes or {}, others) for axis in changed
                }
    return Example(model, (), kwargs, shapes)


def _name(size: int, other: int, sizes: Mapping[int, str], others: Sizes) -> str:
    """The dimension that has these two sizes in the two examples."""
    by_other = {others.batch: BATCH, others.past: PAST, others.source: SOURCE}
    return by_other.get(other) or sizes.get(size) or f"cache.{size}"
