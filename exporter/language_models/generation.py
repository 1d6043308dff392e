"""One call for prompt and steps: any number of new tokens after a past of any length, none at first."""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import ShapesCollection
from torch.utils import _pytree as pytree

from fxport.diagnostics.errors import FxportError
from fxport.exporter.capture.arguments.caches import MODULE, register_caches
from fxport.exporter.language_models.decode import BATCH, CACHES, PAST, SEQUENCE, Example

IDS, MASK, CACHE, LOGITS, PRESENT = "input_ids", "attention_mask", CACHES[0], "logits", "present"
"""Names of inputs and outputs: `past_key_values.0.key` is fed with the `present.0.key` of the run before."""

UNFIT = (AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""Errors of models that are called in another way than they are written for, or whose configuration fits no model."""


class NotGenerativeError(FxportError, ValueError):
    """A model whose prompt and steps are no single graph. The text says why, and what to do."""


def generation_step(model: torch.nn.Module, *, batch: int = 2, past: int = 4, sequence: int = 3) -> Example:
    """`sequence` new tokens for each text, given the cache of `past` tokens: logits of each and the cache with them.

    The one graph takes a prompt (a past of 0), single steps and several tokens at once. Layers with sliding windows
    keep all tokens in the cache, and the mask hides those outside of the window: so a window may be full or not.

    Args:
        model: A causal language model of transformers, whose cache holds keys and values only.
        batch: Texts of the example, at least 2.
        past: Tokens of the example that the cache holds, at least 2.
        sequence: New tokens of the example, at least 2.

    Returns:
        The example, with the inputs `input_ids` int64 [batch, sequence], `attention_mask` int64 [batch, total], where
        total is past + sequence and texts are padded on the left, and `past_key_values.N.key` and `.value`
        [batch, heads, past, size]; the outputs are `logits` [batch, sequence, vocabulary] and `present.N.key` and
        `.value` [batch, heads, total, size]. Logits are in the type of the model, and float32 in the place of bfloat16,
        as onnxruntime-genai takes them.

    Raises:
        NotGenerativeError: The model is an encoder-decoder, or keeps other states than keys and values.
    """
    register_caches()
    require_causal(model)
    kwargs: dict[str, Any] = {
        IDS: token_ids(model, batch, sequence),
        MASK: torch.ones(batch, past + sequence, dtype=torch.int64),
        CACHE: full_cache(model, batch, past),
    }
    shapes = ShapesCollection()
    shapes[kwargs[IDS]] = {0: BATCH, 1: SEQUENCE}
    shapes[kwargs[MASK]] = {0: BATCH, 1: f"{PAST} + {SEQUENCE}"}
    for layer in kwargs[CACHE].layers:
        for tensor in (layer.keys, layer.values):
            shapes[tensor] = {0: BATCH, 2: PAST}
    return Example(_stepping(model), (), kwargs, shapes)


def require_causal(model: torch.nn.Module) -> None:
    """Raise NotGenerativeError for a model that is no causal language model of transformers."""
    name = type(model).__name__
    config = getattr(model, "config", None)
    if config is None or not hasattr(config, "get_text_config"):
        raise NotGenerativeError(f"'{name}' is no language model of transformers; export it with fxport export.")
    if getattr(config, "is_encoder_decoder", False):
        raise NotGenerativeError(
            f"'{name}' is an encoder-decoder, whose prompt and steps are several graphs; use encode, prefill and "
            "decode_step."
        )
    if MASK not in inspect.signature(type(model).forward).parameters:
        raise NotGenerativeError(f"'{name}' takes no '{MASK}', so padding cannot be told; use prefill and decode_step.")


def token_ids(model: torch.nn.Module, batch: int, length: int) -> torch.Tensor:
    """Token ids of the model's vocabulary [batch, length], the same each time."""
    config: Any = model.config
    return (torch.arange(batch * length).reshape(batch, length) * 7 + 1) % int(config.get_text_config().vocab_size)


def full_cache(model: torch.nn.Module, batch: int, past: int) -> Any:
    """The cache after `past` tokens, of layers that each keep all of them. Raises NotGenerativeError for others."""
    caches = importlib.import_module(MODULE)
    cache = caches.DynamicCache()
    try:
        with torch.no_grad():
            result = model(**{IDS: token_ids(model, batch, past)}, past_key_values=cache, use_cache=True)
    except UNFIT as error:
        require_running(model, batch, past)
        raise NotGenerativeError(_refusal(model, f"it does not run with a DynamicCache: {error}")) from error
    if getattr(result, CACHE, None) is not cache:
        raise NotGenerativeError(_refusal(model, f"it does not return its '{CACHE}'"))
    require_full(model, cache, batch, past)
    return cache


def require_running(model: torch.nn.Module, batch: int, tokens: int) -> None:
    """Raise NotGenerativeError for a model that does not run without a cache either."""
    try:
        with torch.no_grad():
            model(**{IDS: token_ids(model, batch, tokens)}, use_cache=False)
    except UNFIT as error:
        raise NotGenerativeError(
            f"'{type(model).__name__}' does not run on {tokens} tokens in eager PyTorch: {type(error).__name__}: "
            f"{error}; correct its configuration."
        ) from error


def require_full(model: torch.nn.Module, cache: Any, batch: int, tokens: int) -> None:
    """Raise NotGenerativeError for a cache of other layers than those that keep a key and a value for each token."""
    caches = importlib.import_module(MODULE)
    others = [type(layer).__name__ for layer in cache.layers if type(layer) is not caches.DynamicLayer]
    if others or not cache.layers:
        raise NotGenerativeError(_refusal(model, f"its cache has {others[0] if others else 'no layers'}"))
    if odd := [index for index, layer in enumerate(cache.layers) if not _holds(layer, batch, tokens)]:
        raise NotGenerativeError(_refusal(model, f"layer {odd[0]} of its cache does not hold a key for each token"))


def _holds(layer: Any, batch: int, past: int) -> bool:
    """Return True if a layer of a cache has keys and values [batch, heads, past, size], and nothing else."""
    tensors = [value for value in vars(layer).values() if isinstance(value, torch.Tensor)]
    both: Sequence[Any] = (layer.keys, layer.values)
    return len(tensors) == 2 and all(
        isinstance(each, torch.Tensor) and each.dim() == 4 and (each.shape[0], each.shape[2]) == (batch, past)
        for each in both
    )


def _refusal(model: torch.nn.Module, reason: str) -> str:
    name = type(model).__name__
    return f"'{name}' has no single graph for prompt and steps: {reason}; use prefill and decode_step."


def _stepping(model: torch.nn.Module) -> torch.nn.Module:
    """The model, of the same tensors, as a function of new tokens, mask and cache; positions follow from the mask."""
    cls = type(model)
    takes_positions = "position_ids" in inspect.signature(cls.forward).parameters

    def forward(
        self: torch.nn.Module, input_ids: torch.Tensor, attention_mask: torch.Tensor, past_key_values: Any
    ) -> dict[str, Any]:
        past_key_values = pytree.tree_map(lambda tensor: tensor, past_key_values)  # the caller's stays as it is
        past = past_key_values.layers[0].keys.shape[2]
        torch._check(attention_mask.shape[1] == past + input_ids.shape[1])
        kwargs: dict[str, Any] = {IDS: input_ids, MASK: attention_mask, CACHE: past_key_values}
        if takes_positions:
            kwargs["position_ids"] = (attention_mask.cumsum(-1) - 1).clamp(min=0)[:, past:]
        result = cls.forward(self, **kwargs, use_cache=True, return_dict=True)
        logits = result.logits.float() if result.logits.dtype == torch.bfloat16 else result.logits
        return {LOGITS: logits, PRESENT: getattr(result, CACHE)}

    return with_forward(model, forward)


def with_forward(model: torch.nn.Module, forward: Callable[..., Any]) -> torch.nn.Module:
    """The model, of the same tensors, with another forward."""
    cls, changed = type(model), copy.copy(model)
    changed.__class__ = type(cls.__name__, (cls,), {"forward": forward, "__module__": cls.__module__})
    return changed
