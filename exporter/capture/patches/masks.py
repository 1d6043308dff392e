"""The attention masks of transformers while a model is captured: left out where a plain run leaves them out."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import SymInt, Tensor
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.fx.experimental.symbolic_shapes import statically_known_true

from fxport.exporter.capture.knowledge import known, note, version

MODULE = "transformers.masking_utils"
MODELS = "transformers.modeling_utils"
KIND = "sdpa"
"""The kind of attention for which no mask may be made; others always get one."""

GROUPED = "use_gqa_in_sdpa"
"""The function that says whether the operator is told of groups of heads."""

LENIENT = "lenient"
"""The fact of a mask that layers get: the one that holds for those that are not causal."""


@contextmanager
def masks_left_out() -> Iterator[None]:
    """Make no mask that would hide nothing, as far as that can be told without reading a tensor.

    transformers makes one in every export. It is not always what a plain run applies: the mask of a text model that
    attends to both sides would be a causal one, and an encoder that shortens its sequence would get one too long.
    """
    if "transformers" not in sys.modules:
        yield
        return
    module, models = importlib.import_module(MODULE), importlib.import_module(MODELS)
    originals = {name: getattr(module, name) for name in RULES if hasattr(module, name)}
    makers, uses = module.ALL_MASK_ATTENTION_FUNCTIONS._global_mapping, models.AttentionInterface._global_mapping
    try:
        for name, original in originals.items():
            setattr(module, name, partial(RULES[name], original))
        with (
            mock.patch.dict(makers, {KIND: partial(_made, makers[KIND])}),
            mock.patch.dict(uses, {KIND: partial(_used, uses[KIND])}),
        ):
            yield
    finally:
        for name, original in originals.items():
            setattr(module, name, original)


def _causal(
    original: Callable[..., bool],
    padding_mask: Tensor | None,
    q_length: Any,
    kv_length: Any,
    q_offset: Any,
    kv_offset: Any,
    local_attention_size: int | None = None,
) -> bool:
    """Return whether the attention itself hides what comes later: where each query has a key, in a causal model."""
    plain = padding_mask is None and local_attention_size is None
    if plain and statically_known_true(q_length == kv_length):
        return True
    return original(padding_mask, q_length, kv_length, q_offset, kv_offset, local_attention_size)


def _made(original: Callable[..., Tensor | None], *args: Any, **given: Any) -> Tensor | None:
    """Return the causal mask of padded texts for `scaled_dot_product_attention`, and note that of other layers.

    A plain run makes it where a text is padded, and none where no text is: what comes later is then hidden by the
    layers alone, and by none that attends to both sides. For these it is the one or the other, as the padding is.
    """
    mask, padding = original(*args, **given), given.get("attention_mask")
    if args or mask is None or padding is None or torch.compiler.is_dynamo_compiling():
        return mask
    queries, keys, near = given["q_length"], given["kv_length"], given.get("local_size")
    if not given.get("allow_is_causal_skip", True) or not statically_known_true(padding.shape[-1] == keys):
        return mask
    asked, held = (torch.scalar_tensor(size, dtype=torch.int64) for size in (queries, keys))
    needless = padding.all() & ((asked == held) | (asked == 1))
    lenient = mask | (needless if near is None else needless & (held < near))
    note(mask, LENIENT, lenient, lenient)
    return mask


def _used(
    original: Callable[..., Any],
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *args: Any,
    is_causal: bool | None = None,
    **given: Any,
) -> Any:
    """Return the attention of one layer, which itself says whether it is causal, if its caller does not."""
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if attention_mask is not None and causal is False and not torch.compiler.is_dynamo_compiling():
        lenient = known(attention_mask, LENIENT)
        attention_mask = attention_mask if lenient is None else lenient
    with _heads_shared(original, query):
        return original(module, query, key, value, attention_mask, *args, is_causal=is_causal, **given)


def _heads_shared(original: Callable[..., Any], query: Tensor) -> AbstractContextManager[Any]:
    """Let `scaled_dot_product_attention` share the heads of keys and values among those of queries.

    transformers repeats them beside a mask, which is an arrangement of each key that the operator need not see, and
    asks first whether there is one query. Where there is one, it makes the groups queries, which stays.
    """
    module = sys.modules.get(original.__module__)
    single = isinstance(query.shape[2], int) and query.shape[2] == 1
    if single or not hasattr(module, GROUPED) or torch.compiler.is_dynamo_compiling():
        return nullcontext()
    return mock.patch.object(module, GROUPED, return_value=True)


def _bidirectional(
    original: Callable[..., bool],
    padding_mask: Tensor | None,
    kv_length: Any,
    local_attention_size: int | None = None,
) -> bool:
    if padding_mask is None and local_attention_size is None:
        return True
    return original(padding_mask, kv_length, local_attention_size)


def _preprocessed(original: Callable[..., Any], *args: Any, **given: Any) -> Any:
    """Give the positions of one row to each text, as is done with those of several rows: nothing is asked of a size."""
    bound = inspect.signature(original).bind(*args, **given)
    texts, positions = bound.arguments.get("inputs_embeds"), bound.arguments.get("position_ids")
    if isinstance(texts, Tensor) and isinstance(positions, Tensor) and positions.dim() == 2:
        rows: Any = positions.shape[0]  # the stubs know no symbolic sizes
        if isinstance(texts.shape[0], SymInt) and isinstance(rows, int) and rows == 1:
            bound.arguments["position_ids"] = positions.expand(texts.shape[0], -1)
    return original(*bound.args, **bound.kwargs)


def _packed(original: Callable[..., Tensor | None], position_ids: Tensor) -> Tensor | None:
    """Tell several texts in a row by positions that begin anew, unless the model counts the positions."""
    return None if _is_counted(position_ids) else original(position_ids)


def _is_counted(positions: Tensor) -> bool:
    """Return whether positions are 0, 1, 2 and so on, or all as much greater, whatever the inputs are."""
    mode = get_proxy_mode()
    found = None if mode is None else get_proxy_slot(positions, mode.tracer, None)
    node = None if found is None else found.proxy.node
    while isinstance(node, Node) and node.target in SHAPED and _is_unwritten(node):
        if node.target is aten.add.Tensor and isinstance(node.args[1], Node) and _has_axes(node.args[1]):
            return False
        node = node.args[0]
    if not isinstance(node, Node) or node.target not in COUNTED or not _is_unwritten(node):
        return False
    return statically_known_true(node.meta["val"].shape[-1] == positions.shape[-1])


def _is_unwritten(node: Node) -> bool:
    """Return whether nothing was written to what a node made, nor to a view of it, since it was made."""
    value = node.meta.get("val")
    return isinstance(value, Tensor) and version(value) == 0


def _has_axes(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, Tensor) and value.dim() > 0


aten = torch.ops.aten
COUNTED = (aten.arange.default, aten.arange.start)
SHAPED = (aten.unsqueeze.default, aten.expand.default, aten.add.Tensor)
"""Ops that keep the steps along the last axis."""

RULES: Mapping[str, Callable[..., Any]] = {
    "_preprocess_mask_arguments": _preprocessed,
    "_ignore_causal_mask_sdpa": _causal,
    "_ignore_bidirectional_mask_sdpa": _bidirectional,
    "find_packed_sequence_indices": _packed,
}
"""Replacement for each of these functions, which it is given."""
