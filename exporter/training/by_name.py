"""Tensors of a step by their names: copies, those without gradients, and a part of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from fxport.exporter.capture.patches.traced_once import copy_of


@torch.no_grad()
def copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies that no gradient goes through."""
    return {name: copy_of(value) for name, value in tensors.items()}


def detached(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the same values in the same memory, through which no gradient goes."""
    return {name: value.detach() for name, value in tensors.items()}


def without(tensors: Mapping[str, Tensor], names: Collection[str]) -> dict[str, Tensor]:
    """Return the tensors of other names."""
    return {name: value for name, value in tensors.items() if name not in names}


def alone(tensor: Tensor) -> Tensor:
    """Return a tensor without its gradient."""
    return tensor.detach() if tensor.requires_grad else tensor
