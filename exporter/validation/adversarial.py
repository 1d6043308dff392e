"""The example call with the values that lowerings and kernels get wrong: equal numbers, zeros, NaN, extremes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from fxport.exporter.capture.arguments.inputs import arguments_of, form_of, leaves_of
from fxport.exporter.capture.arguments.padded import refitted
from fxport.exporter.capture.arguments.strides import laid_out_as
from fxport.exporter.capture.sizes.values import deciding
from fxport.exporter.validation.graph_numbers import GraphNumbers, numbers_of
from fxport.fx_passes.program import Program

LARGE = 1024.0
"""The factor of large values: their squares still fit into float16's neighbour bfloat16 and into float32."""

OFFSET = 128.0
"""The number that is added to values: its square still leaves float32 three digits of a variance of 1; halves have no
such digits."""

MOST_ALONE = 4
"""Inputs that are changed one by one where a model refuses the change of all."""

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
    return x / LARGE if x.is_floating_point() else x // 16


def _zeros(x: Tensor, _number: int) -> Tensor:
    return torch.zeros_like(x)


def _negative_zeros(x: Tensor, number: int) -> Tensor:
    """Negative zeros, and every third number as it was: those of one input meet the zeros of another."""
    changed = torch.full_like(x, -0.0)
    kept = slice((number + 1) % 3, None, 3)
    changed.reshape(-1)[kept] = x.reshape(-1)[kept]
    return changed


def _denormal(x: Tensor, _number: int) -> Tensor:
    return torch.sign(x) * (torch.finfo(x.dtype).smallest_normal / 4)


def _large(x: Tensor, _number: int) -> Tensor:
    """Larger values; of integers as large ones as fit."""
    if x.is_floating_point():
        return x * LARGE
    most = max(abs(int(x.min())), abs(int(x.max())), 1)
    return x * (torch.iinfo(x.dtype).max // most)


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
    return -x if x.is_floating_point() else -1 - x


def _offset(x: Tensor, _number: int) -> Tensor:
    """Numbers far from zero beside their differences."""
    return x + OFFSET


def _mixed(x: Tensor, _number: int) -> Tensor:
    """Every second truth turned round, and every second integer halved: masks have both, and indices repeat."""
    changed = x.clone()
    flat = changed.reshape(-1)
    flat[1::2] = flat[1::2].logical_not() if x.dtype is torch.bool else flat[1::2] // 2
    return changed


def _with_numbers(numbers: GraphNumbers, x: Tensor, number: int) -> Tensor:
    """Numbers at which the graph's comparisons, limits and roundings decide, in the place of some elements.

    Of integers only those that lie within the tensor's own: others may be no index.
    """
    if x.is_floating_point():
        return _put([each for each in (*numbers.known, *numbers.ties) if abs(each) <= LARGE], x, number)
    low, high = int(x.min()), int(x.max())
    return _put([each for each in numbers.known if low <= each <= high and each == int(each)], x, number)


def _with_padding(numbers: GraphNumbers, x: Tensor, number: int) -> Tensor:
    """Integers that the graph compares with, such as ids of padding."""
    limits = torch.iinfo(x.dtype)
    fitting = [each for each in numbers.compared if limits.min <= each <= limits.max and each == int(each)]
    return _put(fitting, x, number)


def _put(fitting: Sequence[float], x: Tensor, number: int) -> Tensor:
    """Numbers in the place of some elements, beginning at another place in each input."""
    changed = x.clone()
    flat = changed.reshape(-1)
    step = max(flat.numel() // max(len(fitting), 1), 2)
    for place, value in zip(range(number % step, flat.numel(), step), fitting, strict=False):
        flat[place] = value
    return changed


def _extreme(x: Tensor, _number: int) -> Tensor:
    """The largest number, one that float32 does not hold and that exceeds the type beside it, and the smallest."""
    limits, changed = torch.iinfo(x.dtype), x.clone()
    flat = changed.reshape(-1)
    for place, value in enumerate((limits.max, limits.max // 5 + 1, limits.min)):
        flat[place : place + 1] = value
    return changed


FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
BYTES = (torch.uint8, torch.int8)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

FOR_FLOATS: Mapping[str, tuple[Change, Sequence[torch.dtype]]] = {
    "halves": (_halves, FLOATS),
    "small": (_small, (*FLOATS, *BYTES)),
    "zeros": (_zeros, FLOATS),
    "negative zeros": (_negative_zeros, FLOATS),
    "denormal": (_denormal, FLOATS),
    "large": (_large, (*FLOATS, *BYTES)),
    "one NaN": (_with_nan, FLOATS),
    "infinity": (_with_infinity, FLOATS),
}
HARD: Mapping[str, tuple[Change, Sequence[torch.dtype]]] = {
    **FOR_FLOATS,
    "large integers": (_large, INTEGERS),
    "negative": (_negative, (*FLOATS, *INTEGERS)),
    "mixed": (_mixed, (torch.bool, *INTEGERS)),
    "offset": (_offset, (torch.float32, torch.float64)),
    "extremes": (_extreme, INTEGERS),
}
"""By label, what becomes of each input of some types; all other inputs stay."""

NUMBERS, PADDING = "numbers", "padding"
"""Labels of calls with numbers that the graph itself has; the latter with integers that it compares with."""

BY_DEFAULT = (
    "halves",
    NUMBERS,
    "mixed",
    "negative",
    "negative zeros",
    "small",
    "large",
    "large integers",
    "offset",
    PADDING,
)
"""Labels of changes that healthy models are equal on, in the order of what they show. NaN and infinity are not among
them: ONNX Runtime's own kernels lose them (MaxPool, LSTM, fused activations), nor what no model is made for."""

ONLY_FINITE = frozenset({"negative", "offset", NUMBERS})
"""Labels of values that a model may not be made for, as a logarithm is not for negative ones: nothing is compared by
default where PyTorch's results are no numbers."""


def table_of(program: Program, *, hard: bool) -> Mapping[str, tuple[Change, Sequence[torch.dtype]]]:
    """The changes for a model by their labels, those by default first."""
    numbers = numbers_of(program)
    own: Mapping[str, tuple[Change, Sequence[torch.dtype]]] = {
        NUMBERS: (partial(_with_numbers, numbers), (*FLOATS, *INTEGERS)),
        PADDING: (partial(_with_padding, numbers), INTEGERS),
    }
    known = {**HARD, **own}
    return {label: known[label] for label in (*BY_DEFAULT, *(known if hard else ()))}


def adversarial(
    module: torch.nn.Module,
    call: tuple[Any, Any],
    program: Program,
    table: Mapping[str, tuple[Change, Sequence[torch.dtype]]],
) -> Iterator[tuple[str, Sequence[tuple[Any, Any]]]]:
    """(label, calls) for each kind of value that the call has an input for.

    Inputs that sizes depend on stay: an extreme number would ask for all memory. So does a lone number. Several calls
    of one label are for a model that refuses the first, in which all inputs are changed: in each one is.
    """
    args, kwargs = call
    arguments = arguments_of(module, args, kwargs)
    kept = deciding(program)
    paths = [leaf.path for leaf in leaves_of(arguments)]
    leaves, spec = pytree.tree_flatten((args, {name: kwargs[name] for name in arguments if name in kwargs}))
    free = [_is_plain(leaf) and path not in kept for path, leaf in zip(paths, leaves, strict=True)]
    for label, (change, dtypes) in table.items():
        numbers = count()
        fresh = {
            place: new
            for place, (may, leaf) in enumerate(zip(free, leaves, strict=True))
            if may and leaf.dtype in dtypes
            if not _same(new := change(leaf.detach().contiguous(), next(numbers)), leaf)
        }
        alone = [{place: fresh[place]} for place in fresh] if len(fresh) > 1 else []
        if fresh:
            yield label, [_with(leaves, spec, each) for each in (fresh, *alone[:MOST_ALONE])]


def _with(leaves: Sequence[Any], spec: pytree.TreeSpec, changed: Mapping[int, Tensor]) -> tuple[Any, Any]:
    """The call with some of its leaves changed, which lie in memory as they did."""
    fresh = {place: laid_out_as(leaves[place], new) for place, new in changed.items()}
    return refitted(pytree.tree_unflatten([fresh.get(place, leaf) for place, leaf in enumerate(leaves)], spec))


def _is_plain(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.dim() > 0 and leaf.numel() > 0 and form_of(leaf) is None


def _same(new: Any, old: Any) -> bool:
    """Return True if a change has left all bits as they were, such as a mask without truths to turn round."""
    return new.equal(old) and bool((new.signbit() == old.signbit()).all())
