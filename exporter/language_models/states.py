"""Decoders whose cache holds states beside keys and values, as two graphs: the prompt at once, and a single step.

Models compute a prompt in blocks, and a step by a recurrence, so that one graph would not serve both. The prompt begins
with states of 0, which are what transformers puts in the place of none.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.export import ShapesCollection
from torch.utils import _pytree as pytree

from fxport.diagnostics import Finding, rules
from fxport.diagnostics.messages import error_line
from fxport.exporter.capture.arguments.caches import MODULE, register_caches
from fxport.exporter.language_models.decode import BATCH, CACHES, PAST, SEQUENCE, Example
from fxport.exporter.language_models.generation import (
    CACHE,
    IDS,
    LOGITS,
    MASK,
    PRESENT,
    UNFIT,
    NotGenerativeError,
    require_running,
    token_ids,
    with_forward,
)
from fxport.exporter.language_models.package_files import SESSION, context_of, described
from fxport.ort_runner.package_config import STATES

PROMPT, STEP = "prompt.onnx", "model.onnx"
"""Files of the two graphs."""

OWN_TYPE = "decoder-with-states"
KEEPING_ALL = {
    "DynamicSlidingWindowLayer": "DynamicLayer",
    "LinearAttentionAndSlidingWindowAttentionLayer": "LinearAttentionAndFullAttentionLayer",
}
"""Layers of a cache with a window, and those of the same use that keep all tokens; the mask hides what is outside."""

TOTAL = f"1 + {PAST}"
"""The dimension of the mask of a step, as sums of dimensions are written."""

STATEFUL = "LinearAttentionCacheLayerMixin"
"""Class of transformers that layers with states are derived from."""

INDEXED = "DynamicIndexedLayer"
"""Class of transformers for layers that keep keys of an indexer."""

LENGTH = 7
"""Tokens of the first example of a prompt."""

BLOCK = re.compile(r"(?:at most |\d+ to )(\d+)")
"""Words for the most tokens that a graph of one block takes."""

BLOCKS = re.compile(r"at least (\d+)")
"""Words for the fewest tokens of which a graph of several blocks is known to be right."""


def empty_cache(model: Any) -> Any:
    """A cache without tokens, with the layers that the configuration of a model names, of which each keeps all."""
    caches = importlib.import_module(MODULE)
    cache = caches.DynamicCache(config=model.config)
    for index, layer in enumerate(cache.layers):
        if (other := KEEPING_ALL.get(type(layer).__name__)) is not None:
            states = getattr(layer, "number_of_states", None)
            cache.layers[index] = getattr(caches, other)(**({} if states is None else {"number_of_states": states}))
    return cache


def has_states(model: Any) -> bool:
    """Return True for a decoder whose cache has layers of states."""
    mixin = getattr(importlib.import_module(MODULE), STATEFUL, None)
    return mixin is not None and any(isinstance(layer, mixin) for layer in empty_cache(model).layers)


def require_stated_order(model: Any) -> None:
    """Raise NotGenerativeError for a decoder with an indexer: many of its scores are 0, and their order is not stated.

    An indexer shows each token those others that have the highest scores, which are sums of rectified products.
    """
    indexed = getattr(importlib.import_module(MODULE), INDEXED, None)
    if indexed is not None and any(isinstance(layer, indexed) for layer in empty_cache(model).layers):
        raise NotGenerativeError(
            f"'{type(model).__name__}' shows each token the others that score highest with an indexer. Several scores "
            "may be 0, and PyTorch states no order among these, so a package might write other tokens; generate with "
            "transformers."
        )


def cache_name(cls: Any) -> str:
    """The name that a class of models has for its cache, as an argument and in its result."""
    return next((name for name in CACHES if name in _parameters(cls)), CACHES[0])


def _parameters(cls: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(cls.forward).parameters


def prompt_and_step(model: torch.nn.Module) -> dict[str, Example]:
    """The calls by the files that they become.

    The prompt is `input_ids` and `attention_mask` int64 [batch, sequence], padded on the left. A step is `input_ids`
    [batch, 1], the tensors of the cache, such as `past_key_values.0.conv_states.0`, and, where some of them grow with
    the text, `attention_mask` [batch, past + 1]. Both give `logits` and the cache after them, `present.0.…`.

    Raises:
        NotGenerativeError: The model does not run with such a cache.
    """
    register_caches()
    return {STEP: _step(model), PROMPT: prompt(model, LENGTH)}


def grows(cache: Any) -> bool:
    """Return True for a cache that holds keys and values besides states."""
    return any(isinstance(getattr(layer, "keys", None), torch.Tensor) for layer in cache.layers)


def block_of(findings: Sequence[Finding]) -> int:
    """Tokens that are more than one block of a prompt, by the limits that findings tell."""
    told = [str(each.facts["range"]) for each in findings if _is_of_prompt(each)]
    return max((int(found[1]) for each in told if (found := BLOCKS.match(each)) is not None), default=LENGTH)


def _is_of_prompt(finding: Finding) -> bool:
    return finding.rule is rules.DIMENSION_RANGE_NARROWED and finding.facts["dim"] == SEQUENCE


def longer_prompt(model: Any, findings: Sequence[Finding]) -> Example | None:
    """An example of a prompt that is more than one block, where findings on a shorter one limit it to a block."""
    for each in findings:
        found = BLOCK.match(str(each.facts["range"])) if _is_of_prompt(each) else None
        if found is not None and LENGTH <= int(found[1]) < context_of(model.config.get_text_config()):
            return prompt(model, int(found[1]) + LENGTH)
    return None


def prompt(model: Any, length: int, batch: int = 2) -> Example:
    """The call of a prompt of some tokens."""
    cls = type(model)
    leaves, spec = pytree.tree_flatten(_cache_after(model, batch, LENGTH))
    sizes = [tuple(size for size, _ in each[1:]) for each in _sizes(model, batch, LENGTH)]
    dtypes = [leaf.dtype for leaf in leaves]

    def forward(self: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, Any]:
        count = input_ids.shape[0]
        zeros = [torch.zeros(count, *size, dtype=dtype) for size, dtype in zip(sizes, dtypes, strict=True)]
        return _called(cls, self, input_ids, attention_mask, pytree.tree_unflatten(zeros, spec))

    kwargs = {IDS: token_ids(model, batch, length), MASK: torch.ones(batch, length, dtype=torch.int64)}
    shapes = ShapesCollection()
    for tensor in kwargs.values():
        shapes[tensor] = {0: BATCH, 1: SEQUENCE}
    return Example(with_forward(model, forward), (), kwargs, shapes)


def _step(model: Any, batch: int = 2, past: int = LENGTH) -> Example:
    cls, shapes = type(model), ShapesCollection()
    cache, growing = _cache_after(model, batch, past), []
    for index, (leaf, sizes) in enumerate(zip(pytree.tree_leaves(cache), _sizes(model, batch, past), strict=True)):
        shapes[leaf] = {axis: dim for axis, (_, dim) in enumerate(sizes) if dim is not None}
        growing += [(index, axis) for axis, (_, dim) in enumerate(sizes) if dim == PAST]

    def with_mask(
        self: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, past_key_values: Any
    ) -> dict[str, Any]:
        index, axis = growing[0]
        torch._check(attention_mask.shape[1] == pytree.tree_leaves(past_key_values)[index].shape[axis] + 1)
        return _called(cls, self, input_ids, attention_mask, pytree.tree_map(torch.clone, past_key_values))

    def without_mask(self: Any, input_ids: torch.Tensor, past_key_values: Any) -> dict[str, Any]:
        return _called(cls, self, input_ids, None, pytree.tree_map(torch.clone, past_key_values))

    kwargs: dict[str, Any] = {IDS: token_ids(model, batch, 1), CACHE: cache}
    shapes[kwargs[IDS]] = {0: BATCH}
    if growing:
        kwargs[MASK] = torch.ones(batch, past + 1, dtype=torch.int64)
        shapes[kwargs[MASK]] = {0: BATCH, 1: TOTAL}
    return Example(with_forward(model, with_mask if growing else without_mask), (), kwargs, shapes)


def _called(cls: Any, self: Any, ids: torch.Tensor, mask: torch.Tensor | None, cache: Any) -> dict[str, Any]:
    """Call the forward of a class of models; positions follow from the mask."""
    name = cache_name(cls)
    given: dict[str, Any] = {IDS: ids, name: cache}
    if mask is not None:
        given[MASK] = mask
        if "position_ids" in _parameters(cls):
            given["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)[:, mask.shape[1] - ids.shape[1] :]
    result = cls.forward(self, **given, use_cache=True, return_dict=True)
    return {LOGITS: result.logits, PRESENT: getattr(result, name)}


def _cache_after(model: Any, batch: int, tokens: int) -> Any:
    """The cache after these many tokens. Raises NotGenerativeError for a model that gives none."""
    name, cache = cache_name(type(model)), empty_cache(model)
    given = {IDS: token_ids(model, batch, tokens), MASK: torch.ones(batch, tokens, dtype=torch.int64)}
    try:
        with torch.no_grad():
            result = model(**given, **{name: cache}, use_cache=True)
    except UNFIT as error:
        require_running(model, batch, tokens)
        raise _refusal(model, f"it does not run with its cache ({error_line(error)})") from error
    if getattr(result, name, None) is not cache or not pytree.tree_leaves(cache):
        raise _refusal(model, f"it does not return its '{name}'")
    return cache


def _sizes(model: Any, batch: int, past: int) -> list[list[tuple[int, str | None]]]:
    """The sizes of each tensor of the cache, 0 where it grows with the text, and the dimensions that they are of."""
    found = []
    names = {batch + 1: BATCH, past + 2: PAST}
    both = (_cache_after(model, *sizes) for sizes in ((batch, past), (batch + 1, past + 2)))
    for leaf, other in zip(*map(pytree.tree_leaves, both), strict=True):
        pairs = list(zip(leaf.shape, other.shape, strict=True))
        if any(old != new and new not in names for old, new in pairs):
            raise _refusal(model, "its cache has sizes that are neither those of texts nor of tokens")
        dims = [names[new] if old != new else None for old, new in pairs]
        if dims[0] != BATCH:
            raise _refusal(model, "its cache has tensors that are not of one row for each text")
        found.append([(0 if dim == PAST else old, dim) for (old, _), dim in zip(pairs, dims, strict=True)])
    return found


def _refusal(model: Any, reason: str) -> NotGenerativeError:
    return NotGenerativeError(f"'{type(model).__name__}' makes no package: {reason}; use prefill and decode_step.")


def states_config(model: Any, graphs: Mapping[str, ir.Graph]) -> dict[str, Any]:
    """The configuration of a package, in the terms of onnxruntime-genai where it has some."""
    names = [str(value.name) for value in graphs[STEP].inputs]
    parts = [name.removeprefix(f"{CACHE}.") for name in names if name.startswith(f"{CACHE}.")]
    text = model.config.get_text_config()
    decoder = {
        "session_options": SESSION,
        "filename": STEP,
        "hidden_size": int(text.hidden_size),
        "inputs": {name: name for name in (IDS, MASK) if name in names} | {"past_names": f"{CACHE}.%s"},
        "outputs": {LOGITS: LOGITS, "present_names": f"{PRESENT}.%s"},
        "num_hidden_layers": int(text.num_hidden_layers),
        STATES: parts,
    }
    found = described(model, decoder, OWN_TYPE)
    found["model"]["prompt"] = {"filename": PROMPT}
    return found
