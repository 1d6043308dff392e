"""Masks that are computed again, as in `x[~mask] += f(x[~mask])`: each selects as many elements as the first did.

PyTorch knows that of one tensor alone, and takes the sizes of two selections for unrelated numbers of the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils import _pytree as pytree
from torch.utils.weak import TensorWeakRef

from fxport.exporter.capture.function_mode import Part
from fxport.exporter.capture.knowledge import Versions, known, note

FIRST = "computed before"
"""The fact of a mask that gives the tensor which was computed in the same way before it."""

MAKING = frozenset(
    getattr(owner, name)
    for owner in (torch, Tensor)
    for name in (
        *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__invert__", "__and__", "__or__", "__xor__"),
        *("eq", "ne", "lt", "le", "gt", "ge", "less", "less_equal", "greater", "greater_equal", "not_equal"),
        *("logical_not", "logical_and", "logical_or", "logical_xor"),
        *("bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor"),
        *("isnan", "isinf", "isfinite", "isneginf", "isposinf", "bool", "to", "type"),
        *("squeeze", "unsqueeze", "flatten", "ravel", "view", "reshape"),
    )
    if hasattr(owner, name)
)
"""Functions without effects that make masks, each always the same one of the same arguments."""

MASKED = frozenset({torch.masked_select, Tensor.masked_select})

SELECTING = frozenset(
    {
        *(Tensor.__getitem__, Tensor.__setitem__, torch.where, Tensor.where),
        *(getattr(owner, name) for owner in (torch, Tensor) for name in ("nonzero", "argwhere", "index_put")),
        Tensor.index_put_,
    }
)
"""Functions that select elements by a mask."""

CONSTANTS = (bool, int, float, str, type(None), torch.dtype)


class MasksRecognized(Part):
    """Give selections by masks that are computed in the same way one size."""

    functions = MAKING | SELECTING | MASKED

    def __init__(self) -> None:
        self.made: dict[Any, tuple[Tensor, Versions, list[TensorWeakRef]]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in MAKING:
            return self._made(func, args, kwargs)
        if func in MASKED and not kwargs and _are_alike(*args):
            func = Tensor.__getitem__  # whose size PyTorch remembers
        masks = [*_recognized(args, kwargs)]
        for mask, first in masks:
            mask.nonzero_memo = first.nonzero_memo if mask.nonzero_memo is None else mask.nonzero_memo
        result = func(*args, **kwargs)
        for mask, first in masks:
            first.nonzero_memo = mask.nonzero_memo if first.nonzero_memo is None else first.nonzero_memo
        return result

    def _made(self, func: Any, args: Any, kwargs: Any) -> Any:
        given, spec = pytree.tree_flatten((args, kwargs))
        key = _key(func, given, spec)  # before the call: the versions of what is given
        mask = func(*args, **kwargs)
        if key is None or type(mask) is not FakeTensor or mask.dtype is not torch.bool:
            return mask
        before = self.made.get(key)
        if before is not None and before[1].are_current and all(each() is not None for each in before[2]):
            note(mask, FIRST, before[0], before[0])
        elif (versions := Versions.of(mask)) is not None:
            # What is given is not kept: whether the model still has a tensor decides elsewhere what may be written to.
            tensors = [TensorWeakRef(_first_of(each)) for each in given if isinstance(each, Tensor)]
            self.made[key] = (mask, versions, tensors)
        return mask


def _first_of(tensor: Tensor) -> Tensor:
    """Return the mask that was computed first in the way of this one; what is none is its own first."""
    first: Tensor | None = known(tensor, FIRST)
    return tensor if first is None else first


def _key(func: Any, given: list[Any], spec: Any) -> Any:
    """Return what is equal for calls that give equal masks; None where that cannot be told."""
    parts: list[Any] = []
    for each in given:
        if type(each) is FakeTensor and not each.is_inference():
            each = _first_of(each)
            parts.append((id(each), each._version))
        elif isinstance(each, CONSTANTS):
            parts.append((type(each), each))
        else:
            return None
    return (func, spec, *parts)


def _recognized(args: Any, kwargs: Any) -> Iterator[tuple[Any, Any]]:
    """Find the masks that are given, each with the one that was computed so before."""
    for each in pytree.tree_leaves((args, kwargs)):
        if type(each) is FakeTensor and each.dtype is torch.bool and (first := known(each, FIRST)) is not None:
            yield each, first


def _are_alike(x: Any, mask: Any) -> bool:
    """Return whether a tensor and a mask have the same shape, so that neither is broadcast."""
    if x.dim() != mask.dim() or not x.dim():
        return False
    return all(statically_known_true(a == b) for a, b in zip(x.shape, mask.shape, strict=True))
