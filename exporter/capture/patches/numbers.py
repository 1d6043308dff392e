"""Operators and functions of Python on symbolic numbers, where PyTorch's give something else than Python.

A truth value is 0 or 1 in arithmetic. A whole power of a negative number is no complex one. What Python refuses to
compute, such as a quotient by 0, is no size for which the captured graph holds.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from decimal import Decimal
from fractions import Fraction
from typing import Any

import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from fxport.exporter.capture.annotations import REAL, noted
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.guards.askers import is_pythons
from fxport.exporter.capture.guards.caught import require_uncaught
from fxport.exporter.capture.patches.mixed_kinds import marked, propagated
from fxport.exporter.capture.sizes.as_data import holds, is_about_inputs

SYMBOLIC = (SymInt, SymFloat, SymBool)


def number(value: Any) -> Any:
    """A truth value as 0 or 1, and a member of an IntEnum as its number; anything else as it is."""
    if isinstance(value, SymBool):
        return value.__sym_ite__(1, 0)
    return int(value) if isinstance(value, int) and type(value) is not int else value


def fraction(value: Any) -> Any:
    """Convert a number as `float` does."""
    return torch.sym_float(number(value))


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float, *SYMBOLIC))


def is_symbolic(value: Any) -> bool:
    return isinstance(value, SYMBOLIC)


def is_fraction(value: Any) -> bool:
    return isinstance(value, (float, SymFloat))


def may_be_nan(value: Any) -> bool:
    """Return True for a symbolic value of floats from data. Algebra knows numbers only: `v != v` is false to it."""
    if not isinstance(value, SymFloat | SymBool) or value.node.has_hint():
        return False
    return any(not symbol.is_integer for symbol in value.node.expr.free_symbols)


# Operators that need more than PyTorch's ------------------------------------------------------------------------------


def _power(a: Any, b: Any) -> Any:
    if is_fraction(a) or is_fraction(b):
        return power_of_floats(a, b)
    if type(a) is int and a and not abs(a) & (abs(a) - 1) and is_symbolic(b) and not b.node.has_hint():
        known = statically_known_true(b >= 0) or statically_known_true(b < 0)
        if not known:  # exact as a float, if only data tells the sign of the exponent
            return marked(power_of_floats(a, b), frozenset({int, float}))
    if b >= 0:  # of a size, a guard: Python's answer is a float for a negative exponent
        return a.__pow_by_natural__(b) if isinstance(a, SymInt) else b.__rpow_by_natural__(a)
    return power_of_floats(a, b)


COMPLEX = "it is a power of a negative number, which is complex in Python"
OF_TENSORS = (
    "Make a tensor of the number, and compute the power of that: `torch.tensor(n, dtype=torch.complex64) ** 0.5`."
)


def power_of_floats(a: Any, b: Any) -> Any:
    """`a ** b` of floats. Raises RefusedError where that is a complex number."""
    whole = not is_fraction(b) or (isinstance(b, float) and b.is_integer())
    if not whole and _holds(a < 0):
        raise RefusedError(COMPLEX, cure=OF_TENSORS)
    is_real = not whole and is_symbolic(a) and holds(a >= 0)
    if not whole and is_symbolic(a) and not is_real:
        torch._check(a >= 0)
    if any(is_symbolic(each) and free_unbacked_symbols(each) for each in (a, b)):
        for kind in (ZeroDivisionError, OverflowError):
            require_uncaught(kind)
    a, b = fraction(a), fraction(b)
    with noted(REAL, True) if is_real else nullcontext():
        if isinstance(a, SymFloat):
            return _made(a.__float_pow__(b))
        return b.__rfloat_pow__(a) if isinstance(b, SymFloat) else a**b


def _made(number: Any) -> Any:
    """Let a trace make the node of a number now, and not when it is first read."""
    traced = get_proxy_mode() if is_symbolic(number) else None
    if traced is not None and (slot := get_proxy_slot(number, traced.tracer, None)) is not None:
        slot.force()
    return number


def _holds(condition: Any) -> bool:
    """Return True if a condition on sizes holds for the example, and so in the graph; on data, if it holds for all."""
    if isinstance(condition, SymBool) and not condition.node.has_hint():
        return statically_known_true(condition)
    return bool(condition)


def _shift_left(a: Any, b: Any) -> Any:
    return a * 2 ** _shift_of(b)


def _shift_right(a: Any, b: Any) -> Any:
    return a // 2 ** _shift_of(b)


def _shift_of(count: Any) -> Any:
    if _holds(count < 0):
        raise ValueError("negative shift count")
    return count


def _round(value: Any, digits: int | None = None) -> Any:
    """A whole number to tens or hundreds: to the nearest, from the middle to the even one."""
    if digits is None or digits >= 0:
        return value
    unit: int = 10**-digits
    times, rest = value // unit, value % unit
    up = (rest * 2 > unit) | ((rest * 2 == unit) & (times % 2 == 1))
    return (times + number(up)) * unit


def _bit_length(value: Any) -> Any:
    """Count the bits of a size; a number of data may be larger than those whose logarithm in float64 is exact enough.

    Raises RefusedError.
    """
    if free_unbacked_symbols(value):
        raise RefusedError("it asks for the bits of a number that only data tell")
    log2: Callable[[Any], Any] = torch._sym_log2  # type: ignore[attr-defined]  # the stubs lack it
    return math.ceil(log2(abs(value) + 1))


def _compared(compare: Callable[[Any, Any], Any], rounded: Callable[[float], int] | None) -> Callable[[Any, Any], Any]:
    """A comparison of a size with a plain fraction, which Python makes without rounding the size to a float."""

    def run(a: Any, b: Any) -> Any:
        if not (isinstance(a, SymInt) and isinstance(b, float)):
            return NotImplemented
        if not math.isfinite(b):
            return compare(0, b)
        if rounded is not None:
            return compare(a, rounded(b))
        return compare(a, int(b)) if b.is_integer() else compare(0, 1)

    return run


SPECIAL: Mapping[str, Callable[[Any, Any], Any]] = {
    "pow": _power,
    "lshift": _shift_left,
    "rshift": _shift_right,
    "lt": _compared(operator.lt, math.ceil),
    "ge": _compared(operator.ge, math.ceil),
    "gt": _compared(operator.gt, math.floor),
    "le": _compared(operator.le, math.floor),
    "eq": _compared(operator.eq, None),
    "ne": _compared(operator.ne, None),
}
"""By the operator's name; NotImplemented leaves it to PyTorch."""

DIVIDING = frozenset({"truediv", "floordiv", "mod"})

ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift")
}
BITWISE: Mapping[str, Callable[[Any, Any], Any]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")
}
OPERATORS = {**ARITHMETIC, **BITWISE, **COMPARISONS}


def _operator(name: str, original: Callable[..., Any], *, reflected: bool) -> Callable[..., Any]:
    """An operator of SymInt or SymFloat."""

    def run(self: Any, other: Any, *rest: Any) -> Any:
        if name in ("eq", "ne") and isinstance(other, EXACT):
            raise RefusedError(f"it compares a size or a number of data with one of {type(other).__name__}")
        if not is_number(other):
            return original(self, other, *rest)
        if _has_own(other, name):
            return NotImplemented
        other = number(other)
        a, b = (other, self) if reflected else (self, other)
        if name in DIVIDING and is_symbolic(b) and not _is_nonzero(b):
            _require_divisor(b)
        result = SPECIAL[name](a, b) if name in SPECIAL else NotImplemented
        result = original(self, other) if result is NotImplemented else result
        unanswered = name in COMPARISONS and (may_be_nan(a) or may_be_nan(b)) and _is_unanswered(result, a, b)
        if unanswered and not _is_hidden():
            return _compared_by_tensors(COMPARISONS[name], a, b)
        result = propagated(OPERATORS[name], result, a, b)
        return result % rest[0] if rest else result

    return run


EXACT = (complex, Fraction, Decimal)
"""Numbers of Python that may be equal to a whole one, and with which PyTorch compares none of its own."""


def _has_own(value: Any, name: str) -> bool:
    """Return whether the class of a whole number has an operator of its own, which Python asks first."""
    kind = type(value)
    if kind in (int, bool) or not isinstance(value, int):
        return False
    return any(getattr(kind, each, None) is not getattr(int, each, None) for each in (f"__{name}__", f"__r{name}__"))


DIVIDED = "it divides by a number that is 0 for some sizes of inputs, which are told"


def _require_divisor(b: Any) -> None:
    """Raise ZeroDivisionError for 0, and RefusedError where the model would catch that data gives 0."""
    if _holds(b == 0):
        raise ZeroDivisionError("division by zero")
    if is_about_inputs(b) and is_pythons() and not holds(b != 0):
        raise RefusedError(DIVIDED)
    if not b.node.has_hint():
        require_uncaught(ZeroDivisionError)


def _is_unanswered(truth: Any, a: Any, b: Any) -> bool:
    """Return True if algebra has no answer to a comparison that holds for NaN as well, and none with an infinity."""
    return _is_known(truth) or any(isinstance(each, float) and math.isinf(each) for each in (a, b))


def _is_known(truth: Any) -> bool:
    """Return True if algebra has decided a comparison, as it does `v == v` and `abs(v) >= 0`: not so of NaN."""
    return not isinstance(truth, SymBool) or bool(truth.node.expr.is_Boolean and not truth.node.expr.free_symbols)


def _is_hidden() -> bool:
    """Return True if an operator was called by PyTorch or by a patch, which ask about numbers as algebra has them."""
    return f"{sys._getframe(2).f_globals.get('__name__')}.".startswith(("torch.", f"{__package__}."))


def _compared_by_tensors(compare: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    return compare(*map(double, (a, b))).item()


def double(value: Any) -> Tensor:
    return torch.scalar_tensor(value, dtype=torch.float64)


def _is_nonzero(value: Any) -> bool:
    """Return True if a number is known not to be 0 without a question, as most sizes are."""
    return bool(value.node.expr.is_nonzero)


def _of_truths(name: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """An operator of SymBool, and its reflection."""
    function = OPERATORS[name]

    def run(self: Any, other: Any, *modulus: int) -> Any:
        result = function(number(self), number(other)) if is_number(other) else NotImplemented
        return result % modulus[0] if modulus else result

    def reflected(self: Any, other: Any) -> Any:
        return function(number(other), number(self)) if is_number(other) else NotImplemented

    return run, reflected


def _both_truths(original: Callable[..., Any], otherwise: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a function that runs `original` on two truth values, and `otherwise` on a truth value and a number."""

    def run(self: Any, other: Any) -> Any:
        return (original if isinstance(other, (bool, SymBool)) else otherwise)(self, other)

    return run


def _same_truth(a: Any, b: Any) -> Any:
    """Return whether two truth values are equal; PyTorch cannot solve an equation of two of them."""
    if isinstance(b, bool):
        return a if b else torch.sym_not(a)
    return number(a) == number(b)


def _divmod(a: Any, b: Any) -> Any:
    return (a // b, a % b) if is_number(b) else NotImplemented


def _rdivmod(b: Any, a: Any) -> Any:
    return (a // b, a % b) if is_number(a) else NotImplemented


def _methods_of_truths() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in (*ARITHMETIC, "lt", "le", "gt", "ge"):
        run, reflected = _of_truths(name)
        yield f"__{name}__", run
        if name in ARITHMETIC:
            yield f"__r{name}__", reflected
    for name, original in (("and", SymBool.__and__), ("or", SymBool.__or__)):
        kept = _both_truths(original, _of_truths(name)[0])
        yield f"__{name}__", kept
        yield f"__r{name}__", kept
    differ = _both_truths(lambda a, b: torch.sym_not(_same_truth(a, b)), _of_truths("ne")[0])
    yield "__eq__", _both_truths(_same_truth, _of_truths("eq")[0])
    yield "__ne__", differ
    for name in ("__xor__", "__rxor__"):
        yield name, _both_truths(differ, _of_truths("xor")[0])
    for name in ("neg", "pos", "abs", "invert"):
        function = getattr(operator, name)
        yield f"__{name}__", lambda self, function=function: function(number(self))
    for name in ("__trunc__", "__floor__", "__ceil__"):
        yield name, number
    yield "__round__", lambda self, digits=None: round(number(self), digits)
    yield "__divmod__", lambda self, other: _divmod(number(self), other)
    yield "__rdivmod__", lambda self, other: _rdivmod(number(self), other)
    yield "__index__", lambda self: int(bool(self))
    yield "__float__", lambda self: float(bool(self))


def _methods_of_numbers(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in OPERATORS:
        for prefix in ("", "r"):
            original = getattr(kind, f"__{prefix}{name}__", None)
            if original is not None and f"{prefix}{name}" not in ("rlt", "rle", "rgt", "rge", "req", "rne"):
                yield f"__{prefix}{name}__", _operator(name, original, reflected=bool(prefix))
    yield "__divmod__", _divmod
    yield "__rdivmod__", _rdivmod


def _whole(original: Callable[..., Any]) -> Callable[..., Any]:
    """A conversion to a whole number, of which there is none for NaN and infinity."""

    def run(self: SymFloat, *digits: Any) -> Any:
        if free_unbacked_symbols(self) and digits in ((), (None,)):
            for kind in (ValueError, OverflowError):
                require_uncaught(kind)
        return original(self, *digits)

    return run


def _refused(name: str) -> Callable[..., Any]:
    """A method that plain numbers have, so that `hasattr` finds it, and no operator computes."""

    def run(self: Any, *args: Any, **options: Any) -> Any:
        raise RefusedError(f"'{name}' of a size is no number of the graph")

    return run


def _attributes() -> Iterator[tuple[type, str, Any]]:
    """Yield what plain numbers have and PyTorch's symbolic ones lack, which `hasattr` and `getattr` ask for."""
    for kind in (SymInt, SymFloat):
        yield kind, "real", property(lambda self: self)
        yield kind, "imag", property(lambda self: 0 if isinstance(self, SymInt) else 0.0)
    yield SymInt, "numerator", property(lambda self: self)
    yield SymInt, "denominator", property(lambda self: 1)
    for name in ("bit_count", "to_bytes"):
        yield SymInt, name, _refused(name)
    yield SymInt, "from_bytes", int.from_bytes


def methods() -> Iterator[tuple[type, str, Any]]:
    """Yield the methods of symbolic numbers: the type, the name, and what gives what Python gives for plain ones."""
    yield from _attributes()
    for kind in (SymInt, SymFloat):
        yield from ((kind, name, method) for name, method in _methods_of_numbers(kind))
    yield from ((SymBool, name, method) for name, method in _methods_of_truths())
    for name in ("__trunc__", "__floor__", "__ceil__"):
        yield SymInt, name, lambda self: self
    fractions: Any = SymFloat  # the stubs lack these
    root: Any = torch._sym_sqrt  # type: ignore[attr-defined]  # they lack this one, too
    yield SymFloat, "__trunc__", _whole(fractions.__trunc__)
    yield SymFloat, "__floor__", _whole(fractions.__floor__)
    yield SymFloat, "__ceil__", _whole(fractions.__ceil__)
    yield SymFloat, "__round__", _whole(fractions.__round__)
    yield SymInt, "__round__", _round
    yield SymInt, "bit_length", _bit_length
    yield SymInt, "__invert__", lambda self: -self - 1
    for kind in (SymInt, SymFloat):
        yield kind, "sqrt", root  # as `numpy.sqrt` has it of an object
    yield SymFloat, "__bool__", lambda self: bool(self != 0)
    yield SymFloat, "is_integer", lambda self: self % 1.0 == 0.0
