"""Functions of symbolic floats as ONNX values, in DOUBLE: each gives the number that Python gives, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir
import sympy

from fxport.exporter.lowering.lower.registry import Unsupported
from fxport.exporter.lowering.lower.signs import with_sign
from fxport.fx_passes.float_functions import MINUS_ONE, ONE, FloatAdd, FloatMul, difference

if TYPE_CHECKING:
    from fxport.exporter.lowering.lower.builder import Op
    from fxport.exporter.lowering.lower.symbols import Symbols

MOST_DIGITS = 22
"""Larger powers of ten are no doubles."""

SPLITTING = float(2**27 + 1)
"""Factor by which a double is multiplied to split it into two of 26 bits each (Veltkamp)."""

WHOLE = float(2**53)
"""From here on every double is a whole number, and rounding to digits gives it back."""


def _add(symbols: Symbols, expr: FloatAdd) -> ir.Value:
    a, b = difference(expr)
    if expr.args[0].is_zero:  # ONNX Runtime drops the addition, which makes 0 of -0
        (x,) = symbols.doubles(expr.args[1])
        zero = _number(symbols.op, 0.0)
        return symbols.op.Where(symbols.op.Equal(x, zero), zero, x)
    return symbols.op.Add(*symbols.doubles(*expr.args)) if b is None else symbols.op.Sub(*symbols.doubles(a, b))


def _multiply(symbols: Symbols, expr: FloatMul) -> ir.Value:
    a, b = expr.args
    return symbols.op.Neg(*symbols.doubles(b)) if a == MINUS_ONE else symbols.op.Mul(*symbols.doubles(a, b))


def _divide(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
    """ONNX Runtime makes one division of `1 / a * b`, which rounds once instead of twice; not of a reciprocal."""
    a, b = expr.args
    return symbols.op.Reciprocal(*symbols.doubles(b)) if a in (1, ONE) else symbols.op.Div(*symbols.doubles(a, b))


def _modulo(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
    """C's fmod, which is exact, with the sign of the divisor, also where nothing is left."""
    op = symbols.op
    a, b = symbols.doubles(*expr.args)
    rest = op.Mod(a, b, fmod=1)
    rest = op.Where(_is_of_other_sign(op, rest, b), op.Add(rest, b), rest)
    return op.Mul(op.Abs(rest), op.Sign(b))


def _is_of_other_sign(op: Op, rest: ir.Value, divisor: ir.Value) -> ir.Value:
    """Compute as BOOL where C's remainder differs from Python's."""
    zero = _number(op, 0.0)
    return op.And(op.Not(op.Equal(rest, zero)), op.Xor(op.Less(rest, zero), op.Less(divisor, zero)))


def _floor_divide(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
    """Compute a floor division: divide `a` minus the exact remainder; the quotient is nearly an integer.

    0 has the sign of `a / b`, as all other quotients have.
    """
    op = symbols.op
    a, b = symbols.doubles(*expr.args)
    one = _number(op, 1.0)
    rest = op.Mod(a, b, fmod=1)
    near = op.Div(op.Sub(a, rest), b)
    near = op.Where(_is_of_other_sign(op, rest, b), op.Sub(near, one), near)
    below = op.Floor(near)
    whole = op.Where(op.Greater(op.Sub(near, below), _number(op, 0.5)), op.Add(below, one), below)
    return with_sign(op, whole, op.Div(a, b))


def _round_decimal(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
    """Python's `round(x, digits)`: to the decimal that is nearest to the very double, from the middle to even.

    The product with a power of ten is rounded itself, so that it may seem to be in the middle; then its error decides.
    0 has the sign of the number.
    """
    op, digits = symbols.op, int(expr.args[1])  # type: ignore[call-overload]  # sympy's numbers
    if abs(digits) > MOST_DIGITS:
        raise Unsupported(f"a number is rounded to {digits} digits")
    (x,), scale = symbols.doubles(expr.args[0]), 10.0 ** abs(digits)
    factor = _number(op, scale)
    if digits >= 0:
        scaled = op.Mul(x, factor)
        error = _error_of_product(op, x, scale, scaled)
    else:
        scaled = op.Div(x, factor)
        back = op.Mul(scaled, factor)
        error = op.Sub(op.Sub(x, back), _error_of_product(op, scaled, scale, back))
    even = op.Round(scaled)
    gap = op.Sub(scaled, even)
    middle = op.Equal(op.Abs(gap), _number(op, 0.5))
    away = op.Greater(op.Mul(gap, error), _number(op, 0.0))
    one = op.Where(op.Greater(gap, _number(op, 0.0)), _number(op, 1.0), _number(op, -1.0))
    whole = op.Where(op.And(middle, away), op.Add(even, one), even)
    rounded = op.Div(whole, factor) if digits >= 0 else op.Mul(whole, factor)
    return with_sign(op, op.Where(op.Less(op.Abs(scaled), _number(op, WHOLE)), rounded, x), x)


def _error_of_product(op: Op, x: ir.Value, factor: float, product: ir.Value) -> ir.Value:
    """Compute the rounding error `x * factor - product` exactly (Dekker)."""
    large = op.Mul(x, _number(op, SPLITTING))
    high = op.Sub(large, op.Sub(large, x))
    low = op.Sub(x, high)
    above = factor * SPLITTING - (factor * SPLITTING - factor)
    upper, lower = _number(op, above), _number(op, factor - above)
    error = op.Sub(op.Mul(high, upper), product)
    error = op.Add(op.Add(error, op.Mul(high, lower)), op.Mul(low, upper))
    return op.Add(error, op.Mul(low, lower))


def _number(op: Op, value: float) -> ir.Value:
    return op.const(np.asarray([value]))


def _power(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
    return symbols.op.Pow(*symbols.doubles(*expr.args))


def _log2(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
    """The power of two below the number, which is exact, and the logarithm of what is left, from 1 to 2."""
    op = symbols.op
    (x,) = symbols.doubles(*expr.args)
    two, ln2 = _number(op, 2.0), _number(op, math.log(2))
    power = op.Floor(op.Div(op.Log(x), ln2))
    rest = op.Div(x, op.Pow(two, power))
    power = op.Where(op.Less(rest, _number(op, 1.0)), op.Sub(power, _number(op, 1.0)), power)
    power = op.Where(op.Less(rest, two), power, op.Add(power, _number(op, 1.0)))
    return op.Add(power, op.Div(op.Log(op.Div(x, op.Pow(two, power))), ln2))


def _unary(op_type: str) -> Callable[[Symbols, Any], ir.Value]:
    def row(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
        return getattr(symbols.op, op_type)(symbols.doubles(*expr.args)[0])

    return row


ROWS: Mapping[str, Callable[[Symbols, Any], ir.Value]] = {
    "FloatAdd": _add,
    "FloatMul": _multiply,
    "FloatTrueDiv": _divide,
    "IntTrueDiv": _divide,
    "FloatMod": _modulo,
    "FloatFloorDiv": _floor_divide,
    "FloatPow": _power,
    "RoundDecimal": _round_decimal,
    "ToFloat": lambda symbols, expr: symbols.doubles(*expr.args)[0],
    "OpaqueUnaryFn_sqrt": _unary("Sqrt"),
    "OpaqueUnaryFn_exp": _unary("Exp"),
    "OpaqueUnaryFn_log": _unary("Log"),
    "OpaqueUnaryFn_log2": _log2,
    "OpaqueUnaryFn_sin": _unary("Sin"),
    "OpaqueUnaryFn_cos": _unary("Cos"),
    "OpaqueUnaryFn_tan": _unary("Tan"),
    "OpaqueUnaryFn_tanh": _unary("Tanh"),
    "OpaqueUnaryFn_sinh": _unary("Sinh"),
    "OpaqueUnaryFn_cosh": _unary("Cosh"),
    "OpaqueUnaryFn_asin": _unary("Asin"),
    "OpaqueUnaryFn_acos": _unary("Acos"),
    "OpaqueUnaryFn_atan": _unary("Atan"),
}
"""By the name of the function's class in `torch.utils._sympy.functions` or `fxport.fx_passes.float_functions`."""
