"""Whole numbers in tensors that follow from weights and dynamic sizes, exactly: `(length - self.kernel) / self.stride`.

Audio codecs keep kernels and strides in buffers, and compute from them and from a length how much to pad. The graph
computes such tensors as they are; a `Quotient` beside each says what it holds, in the terms of sizes, so that what
Python asks of it is a question about sizes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import SymBool, SymInt, Tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

SMALL = 2**10
"""Divisors, and what is added to a quotient, are at most this: so the model's float32 errs by less than counts."""

MOST_ADDED = 4
"""Numbers that are added to a quotient, each of which rounds once."""


@dataclass(frozen=True, slots=True)
class Quotient:
    """A whole number, or one that was divided by a positive plain number, which makes it a `real` in float32.

    Its error in float32 is less than its distance from the next whole number, which `ceil` and `floor` would show: for
    a number a below 2**21 and a divisor b, a / b errs by less than 1/8b, and each sum by less than 1/8b + 2**-14. By a
    power of two, all of them are exact for numbers below 2**23.
    """

    number: Any
    divisor: int = 1
    added: int = 0
    real: bool = False

    def __add__(self, other: Quotient) -> Quotient | None:
        if self.real is other.real:
            return None if self.real else Quotient(self.number + other.number)
        if other.real:
            return other + self
        if type(other.number) is not int or abs(other.number) > SMALL or self.added == MOST_ADDED:
            return None
        return replace(self, number=self.number + other.number * self.divisor, added=self.added + 1)

    def __neg__(self) -> Quotient:
        return replace(self, number=-self.number)

    def __sub__(self, other: Quotient) -> Quotient | None:
        return self + -other

    def __mul__(self, other: Quotient) -> Quotient | None:
        return None if self.real or other.real else Quotient(self.number * other.number)

    def __truediv__(self, other: Quotient) -> Quotient | None:
        divisor = other.number
        if self.real or other.real or type(divisor) is not int or not 0 < divisor <= SMALL:
            return None
        most = 2**23 if divisor & (divisor - 1) == 0 else 2**21
        torch._check(self.number < most)
        torch._check(self.number > -most)
        return Quotient(self.number, divisor, real=True)

    def floor(self) -> Quotient:
        return Quotient(self.number // self.divisor, real=self.real)

    def ceil(self) -> Quotient:
        return -(-self).floor()

    def to(self, dtype: Any = None) -> Quotient | None:
        return Quotient(self.number) if self.divisor == 1 and dtype is torch.int64 else None

    def long(self) -> Quotient | None:
        return self.to(torch.int64)


def _compared(test: Callable[[Any, Any], Any]) -> Callable[[Quotient, Quotient], Any]:
    return lambda one, two: None if one.real or two.real else test(one.number, two.number)


def _chosen(truth: SymBool, one: Quotient | None = None, two: Quotient | None = None) -> Quotient | None:
    """Choose as `max` and `min` of tensors do, which ask Python's question within the graph."""
    if one is None or two is None or one.real or two.real:
        return None
    for test, extreme in ((operator.gt, torch.sym_max), (operator.lt, torch.sym_min)):
        asked = test(one.number, two.number)
        if isinstance(asked, SymBool) and asked.node.expr == truth.node.expr:
            return Quotient(extreme(one.number, two.number))
    return one if truth else two


def _under(names: str, function: Callable[..., Any]) -> Mapping[Any, Callable[..., Any]]:
    """Return the function under each of PyTorch's functions and methods that have one of these names."""
    owners = ((owner, name) for owner in (torch, Tensor) for name in names.split())
    return {getattr(owner, name): function for owner, name in owners if hasattr(owner, name)}


NUMBERS: Mapping[Any, Callable[..., Any]] = {
    **_under("add __add__ __radd__", operator.add),
    **_under("sub __sub__", operator.sub),
    **_under("rsub __rsub__", lambda one, two: two - one),
    **_under("mul __mul__ __rmul__", operator.mul),
    **_under("div true_divide __truediv__", operator.truediv),
    **_under("neg __neg__", operator.neg),
    **_under("ceil", Quotient.ceil),
    **_under("floor", Quotient.floor),
    **_under("to", Quotient.to),
    **_under("long", Quotient.long),
    torch.where: _chosen,
    **{
        function: _compared(test)
        for test in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
        for function in _under(f"{test.__name__} __{test.__name__}__", test)
    },
}
"""Functions of tensors of one number, each with the same of quotients, which gives None where it would not be exact."""


def quotient_of(value: Any) -> Quotient | None:
    """Return a plain whole number, or a size that no data decides, as a quotient."""
    follows = type(value) is int or (isinstance(value, SymInt) and not free_unbacked_symbols(value))
    return Quotient(value) if follows else None


def is_real(number: Quotient | SymBool) -> bool:
    """Return whether a number stands in a tensor of floating point."""
    return isinstance(number, Quotient) and number.real


def is_exact(number: Quotient | SymBool, dtype: torch.dtype) -> bool:
    """Return whether a tensor of this type holds what the number stands for."""
    if isinstance(number, SymBool):
        return dtype is torch.bool
    return dtype in ((torch.float32, torch.float64) if number.real else (torch.int64,))


def number_of(number: Quotient | SymBool) -> Any:
    """Return what `item` gives."""
    return number.number if isinstance(number, Quotient) else number


def truth_of(number: Quotient | SymBool) -> bool:
    """Return whether a number is not zero; PyTorch decides that about dynamic sizes."""
    return bool(number.number != 0 if isinstance(number, Quotient) else number)
