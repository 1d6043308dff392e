"""The example call with the values that kernels get wrong: zeros of both signs, the smallest, the largest, NaN."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

LARGE = 1024.0
"""The factor of large values: their squares still fit into float16's neighbour bfloat16 and into float32."""


def _zeros(x: Tensor) -> Tensor:
    return torch.zeros_like(x)


def _negative_zeros(x: Tensor) -> Tensor:
    return torch.full_like(x, -0.0)


def _denormal(x: Tensor) -> Tensor:
    return torch.sign(x) * (torch.finfo(x.dtype).smallest_normal / 4)


def _large(x: Tensor) -> Tensor:
    return x * LARGE


def _with_nan(x: Tensor) -> Tensor:
    changed = x.clone()
    changed.reshape(-1)[:1] = float("nan")
    return changed


VALUES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "zeros": _zeros,
    "negative zeros": _negative_zeros,
    "denormal": _denormal,
    "large": _large,
    "one NaN": _with_nan,
}
"""By label, what becomes of each floating-point input. Whole numbers stay: they are ids, masks and sizes."""

CHANGED = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def adversarial(call: tuple[Any, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """(label, call) for each kind of value; none for a call without floating-point tensors."""
    leaves = [leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, Tensor)]
    if not any(leaf.dtype in CHANGED for leaf in leaves):
        return
    for label, change in VALUES.items():
        yield label, pytree.tree_map_only(Tensor, _only_changed(change), call)


def _only_changed(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda tensor: change(tensor.detach().contiguous()) if tensor.dtype in CHANGED else tensor
