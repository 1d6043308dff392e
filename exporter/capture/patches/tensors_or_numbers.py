"""Tensors of which only a run of the model knows whether they are numbers in Python: `max(x[0], 0)` of a tensor.

The graph has a tensor in either case. What another tensor becomes that is computed with it may depend on which it is:
an int tensor times 0 is an int tensor, times a float tensor a float one. Then no graph is right for all data, and the
call is refused.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.function_mode import READS, Part
from fxport.exporter.capture.patches.mixed_kinds import OWN, SAMPLES, is_write

OR_NUMBER = "_fxport_or_number"
"""The attribute of a tensor of shape [] that may be a number in Python: the kinds of number."""

REASON = "its dtype depends on whether a value is a tensor or a number of type {kind}, as data has it"
NOT_HELD = "it gives a tensor or a number of type {kind} that the dtype of the tensor does not hold, as data has it"
CURE = "Give `min` and `max` tensors of one dtype, as in `max(x[0], x.new_tensor(0))`, or call `torch.clamp`."

MADE = frozenset({torch.tensor, torch.as_tensor, torch.asarray, torch.full})
"""Functions that make a tensor of a number, with the dtype of its kind."""

ARITHMETIC = frozenset(
    (
        *("add", "sub", "mul", "div", "truediv", "true_divide", "floordiv", "floor_divide", "mod", "remainder", "pow"),
        *("radd", "rsub", "rmul", "rtruediv", "rfloordiv", "rmod", "rpow", "neg", "pos", "abs"),
    )
)
"""Operators that give a number of numbers, by their names without underscores."""


def marked_as_number(tensor: Tensor, numbers: Iterable[Any]) -> Tensor:
    """Return a tensor, marked as one that may be one of these numbers in Python."""
    kinds = frozenset(OWN.get(type(each), type(each)) for each in numbers)
    if kinds:
        setattr(tensor, OR_NUMBER, kinds)
    return tensor


class NumbersHeeded(Part):
    """While it is active, no tensor is computed whose dtype depends on such a mark. Raises RefusedError."""

    def wants(self, func: Any, args: Any, kwargs: Any) -> bool:
        return func not in READS and any(hasattr(each, OR_NUMBER) for each in args)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if kwargs.get("dtype") is not None or is_write(func):
            return func(*args, **kwargs)
        values = pytree.tree_leaves((args, kwargs))
        kinds = frozenset[type]().union(*(getattr(each, OR_NUMBER, ()) for each in values))
        others = [each for each in values if isinstance(each, Tensor) and not hasattr(each, OR_NUMBER)]
        if others or func in MADE:
            _require_one_dtype(values, others, kinds)
        result = func(*args, **kwargs)
        if not others and name.strip("_") in ARITHMETIC and isinstance(result, Tensor):
            setattr(result, OR_NUMBER, _of_operator(name, kinds, result))
        return result


def _of_operator(name: str, kinds: frozenset[type], result: Tensor) -> frozenset[type]:
    """Return the kinds that an operator gives of numbers of these kinds: a quotient is a float."""
    return frozenset({float}) if "div" in name and "floor" not in name and result.is_floating_point() else kinds


def _require_one_dtype(values: Iterable[Any], others: list[Tensor], kinds: frozenset[type]) -> None:
    as_tensor = _promoted([each for each in values if isinstance(each, Tensor)])
    for kind in kinds:
        if _promoted([*others, SAMPLES[kind]]) != as_tensor:
            raise RefusedError(REASON.format(kind=kind.__name__), cure=CURE)


def _promoted(values: list[Any]) -> torch.dtype:
    """Return the dtype of what is computed of tensors and numbers, by PyTorch's rules of promotion."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():  # no trace shall see it
        small = [
            torch.zeros([1] * each.dim(), dtype=each.dtype) if isinstance(each, Tensor) else each for each in values
        ]
        return torch.as_tensor(reduce(operator.add, small)).dtype
