"""Numbers of which only a run of the model knows whether they are ints or floats: `max(n, 2.5)`.

Their value is a float in either case. What a tensor becomes that is computed with one may depend on the kind: an int
tensor times 2 is an int tensor, times 2.0 a float one. Then no graph is right for all data, and the call is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, reduce
from typing import Any
from unittest import mock

import torch
from torch import SymBool, SymFloat, SymInt, Tensor, _refs
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.function_mode import Part

KINDS = "_fxport_kinds"
"""The attribute of a symbolic number of which the kind is not known."""

MERGED_TRUTH = "_fxport_truth"
"""The attribute of a tensor of shape [] that stands for a truth value of Python's."""

SAMPLES: Mapping[type, Any] = {bool: True, int: 2, float: 2.0}
"""A number of each kind."""

OWN: Mapping[type, type] = {SymBool: bool, SymInt: int, SymFloat: float}


RANGES = frozenset({torch.arange, torch.linspace, torch.logspace})
"""Functions that count."""


OF_TRUTHS = frozenset(
    ("add", "radd", "mul", "rmul", "eq", "ne", "lt", "le", "gt", "ge", "and", "rand", "or", "ror", "xor", "rxor")
)
"""Operators of tensors by their names, which take tensors of truth values for truth values."""


OF_ONE_KIND = "Make it of one kind: `float(...)` around it, or around what it may be."


def kinds_of(value: Any) -> frozenset[type]:
    """The kinds of which a number may be."""
    return getattr(value, KINDS, None) or frozenset({OWN.get(type(value), type(value))})


def marked(value: Any, kinds: frozenset[type]) -> Any:
    """The symbolic number, known to be of one of these kinds."""
    if len(kinds) > 1 and type(value) in OWN:
        setattr(value, KINDS, kinds)
    return value


def propagated(function: Callable[[Any, Any], Any], result: Any, a: Any, b: Any) -> Any:
    """The result of an operator, of the kinds that Python gives it."""
    if not (hasattr(a, KINDS) or hasattr(b, KINDS)) or type(result) not in OWN:
        return result
    kinds = {type(function(SAMPLES[one], SAMPLES[other])) for one in kinds_of(a) for other in kinds_of(b)}
    return marked(result, frozenset(kinds))


class KindsHeeded(Part):
    """While it is active, no tensor is computed whose dtype is that of a number of unknown kind. Raises RefusedError.

    A truth value among tensors of numbers is 0 or 1, of which PyTorch makes a plain number otherwise.
    """

    def wants(self, func: Any, args: Any, kwargs: Any) -> bool:
        return _holds_such(args) or (bool(kwargs) and _holds_such(kwargs.values()))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        values = [*args, *kwargs.values()]
        values += [each for value in values if type(value) in (list, tuple) for each in value]
        if any(type(value) is SymBool for value in values) and (change := _change(func, values)) is not None:
            args, kwargs = tuple(map(change, args)), {name: change(value) for name, value in kwargs.items()}
        unknown = [value for value in values if hasattr(value, KINDS)]
        if unknown and kwargs.get("dtype") is None and not is_write(func) and not _is_of_numbers(func):
            tensors = [value for value in values if isinstance(value, Tensor)]
            for each in unknown:
                _require_one_dtype(each, tensors)
        return func(*args, **kwargs)


@contextmanager
def kinds_heeded_in_data() -> Iterator[None]:
    """Raise RefusedError where `torch.tensor` makes a tensor of numbers of unknown kind, which PyTorch's trace of it,
    in front of all other modes, takes for floats."""
    made = _refs.tensor

    def tensor(data: Any, *, dtype: Any = None, **rest: Any) -> Any:
        if dtype is None:
            for each in pytree.tree_leaves(data):
                _require_one_dtype(each, [])
        return made(data, dtype=dtype, **rest)

    with mock.patch.object(_refs, "tensor", tensor):
        yield


def _require_one_dtype(number: Any, tensors: list[Tensor]) -> None:
    if hasattr(number, KINDS) and len({_dtype(tensors, kind) for kind in kinds_of(number)}) > 1:
        names = " or ".join(sorted(kind.__name__ for kind in kinds_of(number)))
        raise RefusedError(f"its dtype depends on whether a number is {names}, as data has it", cure=OF_ONE_KIND)


def _holds_such(values: Iterable[Any]) -> bool:
    """Return whether one of these arguments, or of the items of a list, is a truth value or of unknown kind."""
    for value in values:
        kind = type(value)
        if kind is list or kind is tuple:
            if any(type(each) in OWN and _is_such(each) for each in value):
                return True
        elif kind in OWN and _is_such(value):
            return True
    return False


def _is_such(value: Any) -> bool:
    return type(value) is SymBool or hasattr(value, KINDS)


def _change(func: Any, values: list[Any]) -> Callable[[Any], Any] | None:
    """Return the conversion of truth values among these arguments; None where PyTorch takes them as they are."""
    dtypes = {value.dtype for value in values if isinstance(value, Tensor)}
    if func in RANGES or (dtypes and torch.bool not in dtypes):
        return _number
    return _tensor if dtypes and getattr(func, "__name__", "").strip("_") in OF_TRUTHS else None


def _number(value: Any) -> Any:
    return value.__sym_ite__(1, 0) if type(value) is SymBool else value


def _tensor(value: Any) -> Any:
    return torch.scalar_tensor(value, dtype=torch.bool) if isinstance(value, SymBool) else value  # type: ignore[arg-type]


def _is_of_numbers(func: Any) -> bool:
    """Return True if a function takes and gives symbolic numbers: `torch.sym_max`, `torch._sym_sqrt`."""
    return getattr(func, "__name__", "").lstrip("_").startswith("sym_")


def is_write(func: Any) -> bool:
    """Return True if a call gives its values the dtype of the tensor that it writes to."""
    name = getattr(func, "__name__", "")
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))


def _dtype(tensors: list[Tensor], kind: type) -> Any:
    """The dtype of what a function makes of these tensors and a number of this kind."""
    if not tensors:
        return kind
    return reduce(torch.promote_types, (_with_number(tensor.dtype, tensor.dim() > 0, kind) for tensor in tensors))


@cache
def _with_number(dtype: torch.dtype, has_axes: bool, kind: type) -> torch.dtype:
    with _disable_current_modes(), torch._C.DisableTorchFunction():  # no trace shall see it
        return torch.result_type(torch.empty([1] * has_axes, dtype=dtype), SAMPLES[kind])
