"""The attention masks of transformers while a model is captured: left out where a plain run leaves them out."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.fx.experimental.symbolic_shapes import statically_known_true

MODULE = "transformers.masking_utils"
KIND = "sdpa"
"""The kind of attention for which no mask may be made; others always get one."""


@contextmanager
def masks_left_out() -> Iterator[None]:
    """No mask is made that would hide nothing, as far as that can be told without reading a tensor.

    transformers makes one in every export. It is not always what a plain run applies: the mask of a text model that
    attends to both sides would be a causal one, and an encoder that shortens its sequence would get one too long.
    """
    if "transformers" not in sys.modules:
        yield
        return
    module = importlib.import_module(MODULE)
    originals = {name: getattr(module, name) for name in RULES if hasattr(module, name)}
    known = module.ALL_MASK_ATTENTION_FUNCTIONS._global_mapping
    fused = {KIND: partial(_fused, known[KIND])} if KIND in known else {}
    try:
        for name, original in originals.items():
            setattr(module, name, partial(RULES[name], original))
        with mock.patch.dict(known, fused):
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
    """A query for each key: the attention itself hides what comes later, where the model is one that does so."""
    plain = padding_mask is None and local_attention_size is None
    if plain and statically_known_true(q_length == kv_length):
        return True
    return original(padding_mask, q_length, kv_length, q_offset, kv_offset, local_attention_size)


def _fused(original: Callable[..., Tensor | None], *args: Any, **given: Any) -> Tensor | None:
    """The mask of `scaled_dot_product_attention` in a text model that attends to both sides.

    A plain run makes a causal one where a text is padded, and none where no text is, which hides nothing: this is the
    one or the other, as the padding is.
    """
    mask, padding = original(*args, **given), given.get("attention_mask")
    both = getattr(given.get("config"), "use_bidirectional_attention", False)
    if args or mask is None or padding is None or not both:
        return mask
    if given.get("local_size") is not None or not given.get("allow_is_causal_skip", True):
        return mask
    queries, keys = (torch.scalar_tensor(given[name], dtype=torch.int64) for name in ("q_length", "kv_length"))
    return mask | (padding.all() & (queries == keys))


def _bidirectional(
    original: Callable[..., bool],
    padding_mask: Tensor | None,
    kv_length: Any,
    local_attention_size: int | None = None,
) -> bool:
    if padding_mask is None and local_attention_size is None:
        return True
    return original(padding_mask, kv_length, local_attention_size)


def _packed(original: Callable[..., Tensor | None], position_ids: Tensor) -> Tensor | None:
    """Several texts in a row are told by positions that begin anew, which those that the model counts do not."""
    return None if _is_counted(position_ids) else original(position_ids)


def _is_counted(positions: Tensor) -> bool:
    """Whether they are 0, 1, 2 and so on, or all as much greater, whatever the inputs are."""
    mode = get_proxy_mode()
    found = None if mode is None else get_proxy_slot(positions, mode.tracer, None)
    node = None if found is None else found.proxy.node
    while isinstance(node, Node) and node.target in SHAPED:
        if node.target is aten.add.Tensor and isinstance(node.args[1], Node) and _has_axes(node.args[1]):
            return False
        node = node.args[0]
    if not isinstance(node, Node) or node.target not in COUNTED:
        return False
    return statically_known_true(node.meta["val"].shape[-1] == positions.shape[-1])


def _has_axes(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, Tensor) and value.dim() > 0


aten = torch.ops.aten
COUNTED = (aten.arange.default, aten.arange.start)
SHAPED = (aten.unsqueeze.default, aten.expand.default, aten.add.Tensor)
"""What keeps the steps along the last axis."""

RULES: Mapping[str, Callable[..., Any]] = {
    "_ignore_causal_mask_sdpa": _causal,
    "_ignore_bidirectional_mask_sdpa": _bidirectional,
    "find_packed_sequence_indices": _packed,
}
"""What is called in the place of each of these functions, which is given to it."""
