"""Masks of padding, which a tokenizer makes and no folder of transformers holds: ones in the sizes of the ids."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

IDS, MASK = "input_ids", "attention_mask"
PADDING = 2
"""Tokens of padding in an example."""


def takes(model: nn.Module, name: str) -> bool:
    """Return True if `forward` names this argument."""
    return name in inspect.signature(model.forward).parameters


def padded(mask: Tensor) -> Tensor:
    """Return a mask in which the last text ends early, so that a validation tells whether the mask is heeded."""
    ended = mask.clone()
    ended[-1, -PADDING:] = 0
    return ended


def with_masks(inputs: Mapping[str, Any], masks: Mapping[str, str]) -> dict[str, Any]:
    """Return the inputs and a mask of ones, without padding, for each entry of `masks`: its name, and whose sizes."""
    import torch

    ids = {mask: inputs[of] for mask, of in masks.items() if isinstance(inputs[of], torch.Tensor)}
    return {**inputs, **{mask: torch.ones_like(each, dtype=torch.int64) for mask, each in ids.items()}}
