"""Python's arithmetic while a model is traced: the operators of symbolic numbers, and `min`, `max` and `math.pow`."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from types import FunctionType
from typing import Any
from unittest import mock

import torch
from torch import SymBool, Tensor
from torch._export import non_strict_utils
from torch._export.verifier import Verifier
from torch.export import _trace
from torch.fx.experimental.symbolic_shapes import statically_known_true

from fxport.exporter.capture.patches.extremes import one_of
from fxport.exporter.capture.patches.mixed_kinds import kinds_of, marked
from fxport.exporter.capture.patches.numbers import (
    double,
    is_fraction,
    is_number,
    is_symbolic,
    may_be_nan,
    methods,
    number,
    power_of_floats,
)

REAL = "_fxport_real"
"""The attribute of a function that stands for one of Python's while a model is traced."""


def _extreme(
    real: Callable[..., Any],
    of_tensors: Callable[..., Any],
    of_numbers: Callable[..., Any],
    of_truths: Callable[..., Any],
    is_first: Callable[[Any, Any], Any],
    is_better: Callable[[Any, Any], Any],
) -> Callable[..., Any]:
    """`min` or `max`: of numbers Python's, also of several and of kinds that differ; of tensors the values of one."""

    def pair(one: Any, other: Any) -> Any:
        if all(isinstance(each, (bool, SymBool)) for each in (one, other)):
            return of_truths(one, other)
        a, b = number(one), number(other)
        if may_be_nan(a) or may_be_nan(b):
            first, second = double(a), double(b)
            best = torch.where(is_better(second, first), second, first).item()
            return marked(best, kinds_of(one) | kinds_of(other))
        if is_fraction(a) == is_fraction(b) and kinds_of(one) == kinds_of(other):
            return marked(of_numbers(a, b), kinds_of(one))
        if statically_known_true(is_first(one, other)):
            return one
        if statically_known_true(torch.sym_not(is_first(one, other))):
            return other
        return marked(of_numbers(a, b), kinds_of(one) | kinds_of(other))

    def run(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], (tuple, Iterator, Tensor)):  # of a tensor, its rows
            args = ([*args[0]],)
        values = args[0] if len(args) == 1 and isinstance(args[0], list) else args
        if len(values) > 1 and not kwargs and any(isinstance(each, Tensor) for each in values):
            found = one_of(values, is_better)
            return real(*args) if found is None else found
        if kwargs or not all(map(is_number, values)) or not any(map(is_symbolic, values)):
            return non_strict_utils._tensor_min_max(*args, real_callable=real, tensor_callable=of_tensors, **kwargs)
        return reduce(pair, values)

    return standing_for(real, run)


def standing_for(real: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function as one in the place of a function of Python's."""
    setattr(function, REAL, real)
    return function


def real_of(function: Any) -> Any:
    """Return the function of Python's in whose place another one is while a model is traced."""
    return getattr(function, REAL, function)


@contextmanager
def _builtins_of_a_trace() -> Iterator[None]:
    """Meanwhile `min`, `max` and `math.pow` take tensors, as PyTorch has it, and any numbers, as Python has it."""
    most = _extreme(max, torch.maximum, torch.sym_max, operator.or_, operator.ge, operator.gt)
    least = _extreme(min, torch.minimum, torch.sym_min, operator.and_, operator.le, operator.lt)
    power = math.pow

    def raised(a: Any, b: Any) -> Any:
        return power_of_floats(a, b) if is_symbolic(a) or is_symbolic(b) else power(a, b)

    with (
        mock.patch.object(builtins, "max", most),
        mock.patch.object(builtins, "min", least),
        mock.patch.object(math, "pow", standing_for(power, raised)),
    ):
        yield


@contextmanager
def operators_as_python() -> Iterator[None]:
    """Meanwhile operators and builtin functions give for symbolic numbers what Python gives for plain ones.

    And a captured graph may hold functions of Python's, such as those of `symbolic_calls.CURVES`; what else it holds is
    for the checks of our own passes.
    """
    types, builtin = Verifier.allowed_op_types, Verifier.allowed_builtin_ops
    with (
        _replaced(methods()),
        mock.patch.object(Verifier, "allowed_op_types", lambda graph: (*types(graph), FunctionType)),
        mock.patch.object(Verifier, "allowed_builtin_ops", lambda graph: [*builtin(graph), operator.xor]),
        mock.patch.object(_trace, "_override_builtin_ops", _builtins_of_a_trace),
    ):
        yield


@contextmanager
def _replaced(methods: Iterable[tuple[type, str, Any]]) -> Iterator[None]:
    """Replace methods of classes, also inherited ones. `mock.patch` takes a while for each of these many."""
    before: list[tuple[type, str, Any]] = []
    try:
        for kind, name, method in methods:
            before.append((kind, name, vars(kind).get(name)))
            setattr(kind, name, method)
        yield
    finally:
        for kind, name, original in reversed(before):
            if original is None:
                delattr(kind, name)
            else:
                setattr(kind, name, original)
