"""Float arithmetic on sizes as Python does it: in IEEE doubles, rounded after each operation, in the written order.

PyTorch writes `n * 0.29 * 100` as a product of sympy, which collects constants: `29.0*n` is another number for many n.
The functions here stand for one operation each: kept as they are on symbols, and computed by Python on numbers.

Private PyTorch API is used here: the handlers by which PyTorch bounds an expression and rebuilds it in a graph.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import sympy
from sympy.printing.precedence import PRECEDENCE
from torch.utils._sympy.functions import FloatTrueDiv
from torch.utils._sympy.reference import PythonReferenceAnalysis
from torch.utils._sympy.value_ranges import SymPyValueRangeAnalysis, ValueRanges

Expr = Any
"""An expression of sympy, which has no types."""


class FloatOperation(sympy.Function):
    """An operation on two doubles. A subclass names what Python computes, and PyTorch's handler for its bounds."""

    is_real = True
    nargs = (2,)
    computed: Callable[[float, float], float]
    symbol: str
    precedence: int
    _torch_handler_name: str

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:  # type: ignore[override]  # of so many arguments as there are
        if isinstance(a, sympy.Number) and isinstance(b, sympy.Number):
            return sympy.Float(cls.computed(float(a), float(b)))
        return cls.shortened(a, b)

    @classmethod
    def shortened(cls, a: Expr, b: Expr) -> Expr | None:
        """The same value in a shorter form, if there is one."""
        return None

    def _torch_sympystr(self, printer: Any) -> str:
        """The text in Python, with its operands in the order of the operations."""
        return self.stringify(printer, self.symbol, *self.args)

    def stringify(self, printer: Any, symbol: str, *operands: Expr) -> str:
        return f" {symbol} ".join(printer.parenthesize(each, self.precedence) for each in operands)

    _sympystr = _torch_sympystr


class FloatAdd(FloatOperation):
    """`a + b`. A difference is a sum with a negated operand, which is exact."""

    computed = staticmethod(operator.add)
    symbol = "+"
    precedence = PRECEDENCE["Add"]
    _torch_handler_name = "add"

    @classmethod
    def shortened(cls, a: Expr, b: Expr) -> Expr | None:
        return cls(b, a) if _is_behind(a, b) else None

    def _torch_sympystr(self, printer: Any) -> str:
        plus, minus = difference(self)
        return super()._torch_sympystr(printer) if minus is None else self.stringify(printer, "-", plus, minus)

    _sympystr = _torch_sympystr


class FloatMul(FloatOperation):
    """`a * b`."""

    computed = staticmethod(operator.mul)
    symbol = "*"
    precedence = PRECEDENCE["Mul"]
    _torch_handler_name = "mul"

    @classmethod
    def shortened(cls, a: Expr, b: Expr) -> Expr | None:
        if _is_behind(a, b):
            return cls(b, a)
        if a == ONE:
            return b
        return b.args[1] if a == MINUS_ONE and isinstance(b, FloatMul) and b.args[0] == MINUS_ONE else None

    def _torch_sympystr(self, printer: Any) -> str:
        if self.args[0] != MINUS_ONE:
            return super()._torch_sympystr(printer)
        return f"-{printer.parenthesize(self.args[1], self.precedence)}"

    _sympystr = _torch_sympystr


class FloatMod(FloatOperation):
    """`a % b`, which has the sign of b."""

    computed = staticmethod(operator.mod)
    symbol = "%"
    precedence = PRECEDENCE["Mul"]
    _torch_handler_name = "float_mod"


class FloatFloorDiv(FloatOperation):
    """`a // b`, a float that is whole. Not always `floor(a / b)`, which rounds the quotient first: `1 // 0.1` is 9."""

    computed = staticmethod(operator.floordiv)
    symbol = "//"
    precedence = PRECEDENCE["Mul"]
    _torch_handler_name = "float_floordiv"


ONE, MINUS_ONE = sympy.Float(1.0), sympy.Float(-1.0)


def _is_behind(a: Expr, b: Expr) -> bool:
    """Return True if b precedes a in canonical operand order, constants first, so that equal expressions have one
    form.
    """
    return (a.is_Number, b.is_Number) != (True, False) and (b.is_Number or a.compare(b) > 0) and a != b


def difference(total: FloatAdd) -> tuple[Expr, Expr | None]:
    """(a, b) of `a - b`; None in the place of b where a sum subtracts nothing."""
    for plus, other in (total.args, total.args[::-1]):
        if isinstance(other, FloatMul) and other.args[0] == MINUS_ONE:
            return plus, other.args[1]
    plus, other = total.args
    return (other, sympy.Float(-float(plus))) if isinstance(plus, sympy.Float) and plus < 0 else (total, None)


# What PyTorch asks of a function --------------------------------------------------------------------------------------


def _modulo_bounds(a: Any, b: Any) -> ValueRanges[Any]:
    divisor = ValueRanges.wrap(b)
    return ValueRanges(0.0, divisor.upper) if divisor.lower > 0 else ValueRanges.unknown()


def _quotient_bounds(a: Any, b: Any) -> ValueRanges[Any]:
    dividend, divisor = ValueRanges.wrap(a), ValueRanges.wrap(b)
    if not (dividend.lower >= 0 and divisor.lower > 0):
        return ValueRanges.unknown()
    most: Any = FloatTrueDiv(dividend.upper, divisor.lower) if dividend.upper != sympy.oo else sympy.oo
    return ValueRanges(0.0, most)


HANDLERS: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "float_mod": (_modulo_bounds, operator.mod),
    "float_floordiv": (_quotient_bounds, operator.floordiv),
}
"""By the handler's name: the bounds of a function, and what it is on the numbers of a graph. PyTorch has the others."""

for _name, (_bounds, _operation) in HANDLERS.items():
    setattr(SymPyValueRangeAnalysis, _name, staticmethod(_bounds))
    setattr(PythonReferenceAnalysis, _name, staticmethod(_operation))
