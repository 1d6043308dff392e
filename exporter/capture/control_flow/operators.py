"""`not`, `and`, `or`, chained comparisons and `in` on values of the data: what rewritten expressions call.

Python computes the second operand only if the first does not decide. Where the first depends on data and the second
changes something, or may fail, both become branches of a cond.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import torch
from torch import SymBool, SymInt, Tensor, nn

from fxport.exporter.capture.control_flow.alternatives import is_same_value
from fxport.exporter.capture.control_flow.branches import chosen
from fxport.exporter.capture.control_flow.choices import OneOf, as_asked, chosen_at, is_index_of_data, refuse_choice
from fxport.exporter.capture.control_flow.effects import Effects
from fxport.exporter.capture.control_flow.identities import is_number
from fxport.exporter.capture.control_flow.lifting import read_by
from fxport.exporter.capture.control_flow.lists import counted
from fxport.exporter.capture.control_flow.merging import DTYPES
from fxport.exporter.capture.control_flow.number_lists import NumberList, has_data, is_equal
from fxport.exporter.capture.control_flow.sized_keys import holds, is_keyed, is_of_data, taken
from fxport.exporter.capture.control_flow.truth import NUMBERS, depends_on_data, predicate
from fxport.exporter.capture.guards.caught import errors_noted, require_uncaught
from fxport.exporter.capture.patches.numbers import may_be_nan, number
from fxport.exporter.capture.patches.watched_calls import FailuresNoted


def _equal(one: Any, other: Any) -> Any:
    """Return `one == other`, also of lists and tuples such as sizes, of whose elements only data tell."""
    are_alike = any(isinstance(one, kind) and isinstance(other, kind) for kind in (list, tuple))
    if not are_alike or not (has_data(one) or has_data(other)):
        return one == other
    if len(one) != len(other):
        return False
    return reduce(lambda truth, pair: and_(truth, lambda: is_equal(*pair)), zip(one, other, strict=True), True)


COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name.lower()) for name in ("Lt", "Gt")},
    "Eq": _equal,
    "NotEq": lambda one, other: not_(_equal(one, other)) if has_data(one) or has_data(other) else one != other,
    "LtE": operator.le,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda one, many: one in many,
    "NotIn": lambda one, many: one not in many,
}
"""Comparisons of Python by the names of their nodes."""


def not_(test: Any) -> Any:
    """Return `not test`."""
    if isinstance(test, Tensor):
        return test.logical_not()
    test = counted(test)
    if not depends_on_data(test):
        return not test
    if isinstance(test, SymInt):
        return test == 0
    return predicate(test).logical_not() if may_be_nan(test) else torch.sym_not(test)


def and_(first: Any, second: Callable[[], Any]) -> Any:
    """Return whether `first and second` is true."""
    first = counted(first)
    if not depends_on_data(first):
        return first and second()
    if _must_wait(second):
        return chosen(first, lambda: truth(second()), lambda: False)
    other = second()
    return predicate(first).logical_and(predicate(other)) if depends_on_data(other) else first if other else other


def or_(first: Any, second: Callable[[], Any]) -> Any:
    """Return whether `first or second` is true."""
    first = counted(first)
    if not depends_on_data(first):
        return first or second()
    if _must_wait(second):
        return chosen(first, lambda: True, lambda: truth(second()))
    other = second()
    return predicate(first).logical_or(predicate(other)) if depends_on_data(other) else other if other else first


def both(first: Any, second: Callable[[], Any]) -> Any:
    """Return the value of `first and second`."""
    if not depends_on_data(first):
        return first and second()
    return and_(first, second) if _are_truths(first, second) else chosen(first, second, lambda: first)


def either(first: Any, second: Callable[[], Any]) -> Any:
    """Return the value of `first or second`."""
    if not depends_on_data(first):
        return first or second()
    return or_(first, second) if _are_truths(first, second) else chosen(first, lambda: first, second)


def compared(first: Any, *rest: tuple[str, Callable[[], Any]]) -> Any:
    """Return `first < second < third`, each with the name of the node that compares it with the one before."""
    (kind, second), *more = rest
    value = second()
    truth = COMPARISONS[kind](first, value)
    return both(truth, lambda: compared(value, *more)) if more else truth


def among(value: Any, many: Any) -> Any:
    """Return `value in many`, of which both may be tensors, and the value a number that data tells."""
    if isinstance(many, Tensor) and isinstance(value, (Tensor, *DTYPES)):
        return (many == value).any()
    if type(many) is range and isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if type(many) is range and isinstance(value, NUMBERS) and depends_on_data(value):
        return _is_in_range(number(value), many)
    if isinstance(many, NumberList):
        return many.equal_to(value).any().item()
    if isinstance(many, (dict, set, frozenset)) and is_keyed(many, value, "__contains__"):
        return holds(many, value)
    if type(many) in (list, tuple) and isinstance(value, tuple) and is_of_data(value) and not is_of_data((*many,)):
        return holds(many, value)
    is_searched = getattr(type(many), "__contains__", None) in (list.__contains__, tuple.__contains__)
    if not (is_searched and isinstance(value, (Tensor, *DTYPES)) and (depends_on_data(value) or has_data(many))):
        return value in many
    found = reduce(lambda one, each: or_(one, lambda: is_equal(value, each)), many, False)
    of_numbers = isinstance(found, Tensor) and not any(isinstance(each, Tensor) for each in (value, *many))
    return found.item() if of_numbers else found


def _is_in_range(value: Any, numbers: range) -> Any:
    """Return whether a number is one of a range, whole or not."""
    if not numbers:
        return False
    low, high, step = min(numbers[0], numbers[-1]), max(numbers[0], numbers[-1]), abs(numbers.step)
    within = and_(value >= low, lambda: value <= high)
    return within if step == 1 and isinstance(value, SymInt) else and_(within, lambda: (value - low) % step == 0)


def element(values: Any, index: Any) -> Any:
    """Return `values[index]`, of a plain list or tuple, or one of modules, also where data tells the index.

    Of a dict, also where the key is a dynamic size, or a number that data tells.

    Raises:
        LoopError: There are too many elements to choose from.
        RefusedError: The model would catch that there is no such element.
    """
    if isinstance(values, dict):
        return taken(values, index) if is_keyed(values, index, "__getitem__") else values[index]
    if type(values) not in (list, tuple, nn.ModuleList) or not len(values):
        return values[index]
    if not is_index_of_data(index):
        return values[as_asked(index)]
    require_uncaught(IndexError)
    return chosen_at(values, index)


def is_same(one: Any, other: Any) -> Any:
    """Return `one is other`. Raises LoopError where only data tells, of a module or a tensor that they choose."""
    if SymInt in (type(one), type(other)):
        return is_number(one, other)
    return refuse_choice() if OneOf in (type(one), type(other)) else is_same_value(one, other)


def _are_truths(first: Any, second: Callable[[], Any]) -> bool:
    """Return whether both operands are truth values, and the second may be computed in any case."""
    return _is_truth(first) and not _must_wait(second) and _is_truth(second())


def _is_truth(value: Any) -> bool:
    return isinstance(value, (bool, SymBool)) or (
        isinstance(value, Tensor) and value.dtype is torch.bool and value.dim() == 0
    )


def truth(value: Any) -> Any:
    """Return `bool(value)`, of a value of the data as a tensor of shape []."""
    return predicate(value) if depends_on_data(value) else bool(value)


def _must_wait(second: Callable[[], Any]) -> bool:
    """Return whether computing a value changes anything, which is undone, or may fail where the first one decides."""
    effects = Effects.of((second,))
    with errors_noted() as errors, FailuresNoted() as failures:
        ((_, changes),), outside = read_by([lambda: effects.observe(second)], (), effects.numbers)
    return bool(changes.values or changes.grown or outside.written or errors) or failures.is_any
