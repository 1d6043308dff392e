"""The example call with the values that lowerings and kernels get wrong: equal numbers, zeros, NaN, extremes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from fxport.exporter.capture.arguments.inputs import arguments_of, form_of, leaves_of
from fxport.exporter.capture.arguments.padded import refitted
from fxport.exporter.capture.sizes.values import deciding
from fxport.fx_passes.program import Program

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


BY_DEFAULT = {label: HARD[label] for label in ("halves", "negative", "negative zeros", "small", "large")}
"""Changes that healthy models are equal on, in the order of what they show. NaN and infinity are not among them: ONNX
Runtime's own kernels lose them (MaxPool, LSTM, fused activations), nor what no model is made for."""


def adversarial(
    module: torch.nn.Module,
    call: tuple[Any, Any],
    program: Program,
    table: Mapping[str, tuple[Change, Sequence[torch.dtype]]],
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """(label, call) for each kind of value that the call has an input for.

    Inputs that sizes depend on stay: an extreme number would ask for all memory. So does a lone number.
    """
    args, kwargs = call
    arguments = arguments_of(module, args, kwargs)
    kept = deciding(program)
    paths = [leaf.path for leaf in leaves_of(arguments)]
    leaves, spec = pytree.tree_flatten((args, {name: kwargs[name] for name in arguments if name in kwargs}))
    free = [_is_plain(leaf) and path not in kept for path, leaf in zip(paths, leaves, strict=True)]
    for label, (change, dtypes) in table.items():
        numbers = count()
        fresh = [
            change(leaf.detach().contiguous(), next(numbers)) if may and leaf.dtype in dtypes else leaf
            for may, leaf in zip(free, leaves, strict=True)
        ]
        if any(new is not old for new, old in zip(fresh, leaves, strict=True)):
            yield label, refitted(pytree.tree_unflatten(fresh, spec))


def _is_plain(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.dim() > 0 and leaf.numel() > 0 and form_of(leaf) is None
