"""The example call with the values that lowerings and kernels get wrong: equal numbers, zeros, NaN, extremes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

LARGE = 1024.0
"""The factor of large values: their squares still fit into float16's neighbour bfloat16 and into float32."""

Change = Callable[[Tensor, int], Tensor]
"""Function of an input and its number among the inputs of its kind."""


def _halves(x: Tensor, _number: int) -> Tensor:
    """Multiples of one half, many of them equal, zeros of both signs, and a row and a column of nothing else."""
    changed = torch.round(x * 2) / 2
    for dim in range(x.dim()):
        if x.shape[dim] > 2:
            changed.narrow(dim, 0, 1).zero_()
    return changed


def _small(x: Tensor, _number: int) -> Tensor:
    return x / LARGE


def _zeros(x: Tensor, _number: int) -> Tensor:
    return torch.zeros_like(x)


def _negative_zeros(x: Tensor, _number: int) -> Tensor:
    return torch.full_like(x, -0.0)


def _denormal(x: Tensor, _number: int) -> Tensor:
    return torch.sign(x) * (torch.finfo(x.dtype).smallest_normal / 4)


def _large(x: Tensor, _number: int) -> Tensor:
    return x * LARGE


def _with_nan(x: Tensor, number: int) -> Tensor:
    """Not at the same place in each input: one number and one NaN are to meet."""
    changed = x.clone()
    changed.reshape(-1)[number : number + 1] = float("nan")
    return changed


def _with_infinity(x: Tensor, _number: int) -> Tensor:
    """Both infinities, and a row of the negative one."""
    changed = x.clone()
    changed[..., -1:] = float("inf")
    changed[:1] = float("-inf")
    return changed


def _negative(x: Tensor, _number: int) -> Tensor:
    """The contrary numbers; of an index the same place, counted from the end."""
    return -1 - x


def _extreme(x: Tensor, _number: int) -> Tensor:
    """The smallest and the largest number, and some that float32 does not hold."""
    limits, changed = torch.iinfo(x.dtype), x.clone()
    flat = changed.reshape(-1)
    for place, value in enumerate((limits.min, limits.max, limits.max // 5 + 1)):
        flat[place : place + 1] = value
    return changed


FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)

FOR_FLOATS: Mapping[str, tuple[Change, Sequence[torch.dtype]]] = {
    "halves": (_halves, FLOATS),
    "small": (_small, FLOATS),
    "zeros": (_zeros, FLOATS),
    "negative zeros": (_negative_zeros, FLOATS),
    "denormal": (_denormal, FLOATS),
    "large": (_large, FLOATS),
    "one NaN": (_with_nan, FLOATS),
    "infinity": (_with_infinity, FLOATS),
}
HARD: Mapping[str, tuple[Change, Sequence[torch.dtype]]] = {
    **FOR_FLOATS,
    "negative": (_negative, INTEGERS),
    "extremes": (_extreme, INTEGERS),
}
"""By label, what becomes of each input of some types; all other inputs stay."""


def adversarial(
    call: tuple[Any, Any], table: Mapping[str, tuple[Change, Sequence[torch.dtype]]]
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """(label, call) for each kind of value that the call has an input for."""
    leaves = [leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, Tensor)]
    for label, (change, dtypes) in table.items():
        if any(leaf.dtype in dtypes for leaf in leaves):
            yield label, pytree.tree_map_only(Tensor, _only_changed(change, dtypes), call)


def _only_changed(change: Change, dtypes: Sequence[torch.dtype]) -> Callable[[Tensor], Tensor]:
    numbers = count()

    def changed(tensor: Tensor) -> Tensor:
        if tensor.dtype not in dtypes or not tensor.dim():  # a lone number may be a size
            return tensor
        return change(tensor.detach().contiguous(), next(numbers))

    return changed
