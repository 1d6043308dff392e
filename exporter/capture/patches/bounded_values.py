"""`torch.bincount(experts, minlength=8)`, where no expert has a number above 7: as many counts as were asked for.

How long the result is depends on the largest value, which only data tells; but the place of a maximum, or one of the
best, is below the size of the axis. Layers of experts go through the counts in Python, or split by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fxport.exporter.capture.function_mode import Part
from fxport.exporter.capture.knowledge import known, note

BOUND = "below"
"""The fact of a tensor of natural numbers that says what all of them are below."""

KEEPING = frozenset(
    getattr(owner, name)
    for owner in (torch, Tensor)
    for name in (
        *("view", "reshape", "flatten", "ravel", "squeeze", "unsqueeze", "permute", "transpose", "t", "contiguous"),
        *("expand", "expand_as", "repeat", "clone", "detach", "to", "long", "int", "cpu", "__getitem__"),
        *("index_select", "gather", "masked_select", "sort", "flip", "repeat_interleave"),
    )
    if hasattr(owner, name)
)
"""Functions whose result holds values of their first argument, and no others."""

PLACING: Mapping[str, tuple[int, bool, int | None]] = {
    "argmax": (1, False, None),
    "argmin": (1, False, None),
    "argsort": (1, True, None),
    "sort": (1, True, 1),
    "topk": (2, True, 1),
}
"""Functions that give places along an axis: where it stands among the arguments, whether it is the last one if it is
not given, and which of the results has the places.
"""

REMAINDERS = frozenset({torch.remainder, Tensor.remainder, Tensor.__mod__})

COUNTING = frozenset({torch.bincount, Tensor.bincount})

COLLECTING = frozenset({torch.unique, Tensor.unique})


class BoundsKnown(Part):
    """Note what the values of tensors are below, as far as that follows from sizes."""

    functions = frozenset(
        {
            *(KEEPING | REMAINDERS | COUNTING | COLLECTING),
            *(getattr(owner, name) for owner in (torch, Tensor) for name in PLACING),
        }
    )

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in COUNTING and (counts := _counts(*args, **kwargs)) is not None:
            return counts
        if func in COLLECTING and (found := _found(*args, **kwargs)) is not None:
            return found
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        divisor = args[1] if len(args) > 1 else kwargs.get("other")
        if func in REMAINDERS and not isinstance(args[0], float) and type(divisor) is int:
            _note(result, divisor)
        elif func in KEEPING and args and (bound := known(args[0], BOUND)) is not None:
            _note(result[0] if name == "sort" else result, bound)
        if name in PLACING and func in (getattr(torch, name), getattr(Tensor, name)):
            _note(*_places(name, result, *args, **kwargs))
        return result


def _places(name: str, result: Any, x: Tensor, *rest: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Return the result that holds positions, and the number of them; None where that is no plain number."""
    position, last, which = PLACING[name]
    dim = kwargs.get("dim", rest[position - 1] if len(rest) >= position else -1 if last else None)
    size = x.shape[dim] if x.dim() and type(dim) is int else None
    return result if which is None else result[which], size


def _counts(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor | None:
    """Return how often each number below `minlength` occurs, or the sum of its weights, if no other can occur."""
    bound = known(x, BOUND)
    if bound is None or type(minlength) is not int or bound > minlength:
        return None
    given = torch.ones_like(x, dtype=torch.int64) if weights is None else weights
    if weights is not None and weights.dtype is not torch.float32:
        given = weights.to(torch.float64)
    return torch.zeros(minlength, dtype=given.dtype, device=x.device).scatter_add(0, x.to(torch.int64), given)


def _found(x: Tensor, sorted: bool = True, *others: Any, dim: int | None = None, **wanted: bool) -> Tensor | None:
    """Return the numbers that occur, as positions in a mask: a loop over them has a known length and a branch."""
    bound = known(x, BOUND)
    if bound is None or any(others) or any(wanted.values()) or dim is not None or x.dtype is not torch.int64:
        return None
    counts = torch.zeros(bound, dtype=torch.int64, device=x.device).index_fill(0, x.reshape(-1), 1)
    return counts.nonzero().squeeze(1)


def _note(x: Any, bound: Any) -> None:
    if isinstance(x, Tensor) and not x.is_floating_point() and type(bound) is int and bound > 0:
        note(x, BOUND, bound)
