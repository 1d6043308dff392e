"""Symbolic sizes as ONNX values: one row per sympy function, each expression computed once per scope."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import sympy
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from fxport.exporter.lowering.lower import float_functions
from fxport.exporter.lowering.lower.dtypes import is_float
from fxport.exporter.lowering.lower.wide_numbers import decided, is_beyond, reached, require_within
from fxport.fx_passes.sizes import NamedSize, Size, is_symbolic, plain

if TYPE_CHECKING:
    from fxport.exporter.lowering.lower.builder import Op

INT64, DOUBLE, BOOL = ir.DataType.INT64, ir.DataType.DOUBLE, ir.DataType.BOOL


class UnboundSymbol(Exception):
    """An expression over a symbol that no input or value of the graph determines."""


MOST_FACTORS = 63
"""A product of more whole numbers than this is 0, 1, -1 or too large."""

Bindings = tuple[
    dict[sympy.Symbol, Callable[[], ir.Value]], dict[sympy.Symbol, tuple[ir.Value, int]], dict[Size, ir.Value]
]


class Symbols:
    """Sources of the symbols' values, and the ONNX values of the expressions requested so far.

    Values are vectors of one element: shapes are concatenations of them. Memoised by scope, because a value made
    inside a branch or a loop body cannot be seen outside it.
    """

    def __init__(self, op: Op) -> None:
        self.op = op
        self.sources: dict[sympy.Symbol, Callable[[], ir.Value]] = {}
        self.places: dict[sympy.Symbol, tuple[ir.Value, int]] = {}
        self.contents: dict[Size, ir.Value] = {}
        """Symbols that are the content of a tensor of shape []."""

    def snapshot(self) -> Bindings:
        """Return the current bindings. Those that a body adds are dropped after it: its values cannot be seen
        outside.
        """
        return dict(self.sources), dict(self.places), dict(self.contents)

    def restore(self, bindings: Bindings) -> None:
        self.sources, self.places, self.contents = bindings

    def bind_sizes(self, value: ir.Value, sizes: Sequence[Size]) -> None:
        """The symbols among a tensor's sizes are from here on found in its shape."""
        for axis, size in enumerate(sizes):
            if isinstance(size, sympy.Symbol) and size not in self.sources:
                self.places[size] = (value, axis)
                self.sources[size] = lambda axis=axis: self.op.Shape(value, start=axis, end=axis + 1)
        for axis, size in enumerate(sizes):
            if isinstance(size, sympy.Expr) and len(size.free_symbols) == 1:
                self._bind_by_solving(value, axis, size)

    def _bind_by_solving(self, value: ir.Value, axis: int, size: sympy.Expr) -> None:
        """A size such as `2*s0` determines `s0`, if no other size says it more plainly."""
        (symbol,) = size.free_symbols
        if symbol in self.sources or not isinstance(symbol, sympy.Symbol):
            return
        seen = sympy.Symbol(f"size_{symbol}", integer=True, nonnegative=True)
        if not size.is_polynomial(symbol) or (polynomial := sympy.Poly(size, symbol)).degree() != 1:
            return
        slope, offset = polynomial.all_coeffs()
        self.sources[seen] = lambda: self.op.Shape(value, start=axis, end=axis + 1)
        self.sources[symbol] = lambda: self.op.Div(
            self.op.Sub(self.vector(seen), self.op.const([int(offset)])), self.op.const([int(slope)])
        )

    def bind_scalar(self, value: ir.Value, symbol: sympy.Symbol) -> None:
        """A symbol that is the content of a tensor of one element, as `Tensor.item` makes it; truth is 0 or 1."""
        if symbol not in self.sources:
            dtype = DOUBLE if is_float(value.dtype) else INT64
            self.sources[symbol] = lambda: self.op.cast(self.op.Reshape(value, self.op.const([1])), dtype)
            if self.op.is_scalar(value):
                self.contents[symbol] = value

    def as_sizes(self, expr: sympy.Basic) -> Any:
        """Return the expression with its symbols that are sizes of tensors as such: none of them is negative."""
        sizes = {
            each: sympy.Symbol(f"size_{each}", integer=True, nonnegative=True)
            for each in free_unbacked_symbols(expr)
            if each in self.places
        }
        return expr.xreplace(sizes) if sizes else expr

    def vector(self, expr: Size) -> ir.Value:
        """The value of an expression, of shape [1]; INT64 for sizes, DOUBLE for floats, BOOL for relations."""
        expr = plain(expr)
        if not isinstance(expr, sympy.Basic):
            require_within(expr)
            return self.op.const([expr], dtype=_dtype_of(expr))
        found = self.op.scope.lookup(expr)
        if found is None:
            found = self._compute(expr)
            self.op.scope.remember(expr, found)
        return found

    def scalar(self, expr: Size) -> ir.Value:
        """The value of an expression as a tensor of shape []."""
        expr = plain(expr)
        if not isinstance(expr, sympy.Basic):
            require_within(expr)
            return self.op.const(expr, dtype=_dtype_of(expr))
        key = ("scalar", expr)
        found = self.op.scope.lookup(key)
        if found is None and expr in self.contents:
            content = self.contents[expr]
            found = self.op.cast(content, DOUBLE if is_float(content.dtype) else INT64)
            self.op.scope.remember(key, found)
        if found is None:
            found = self.op.typed(self.op.Squeeze(self.vector(expr), [0]), ())
            self.op.scope.remember(key, found)
        return found

    def shape(self, sizes: Sequence[Size]) -> ir.Value:
        """Sizes as a vector of INT64, constant where they all are."""
        sizes = tuple(plain(size) for size in sizes)
        if not any(is_symbolic(size) for size in sizes):
            return self.op.const(list(sizes), dtype=INT64)
        found = self.op.scope.lookup(sizes)
        if found is None:
            pieces = [self._run(run) for run in self._runs(sizes)]
            found = pieces[0] if len(pieces) == 1 else self.op.Concat(*pieces, axis=0)
            self.op.scope.remember(sizes, found)
        return found

    def _runs(self, sizes: Sequence[Size]) -> list[list[Size]]:
        """Neighbours that one value gives together: constants, and consecutive axes of one tensor."""
        runs: list[list[Size]] = []
        for size in sizes:
            if runs and self._continues(runs[-1][-1], size):
                runs[-1].append(size)
            else:
                runs.append([size])
        return runs

    def _continues(self, last: Size, size: Size) -> bool:
        if not is_symbolic(last) or not is_symbolic(size):
            return not is_symbolic(last) and not is_symbolic(size)
        a, b = self.places.get(last), self.places.get(size)  # type: ignore[call-overload]  # symbols are expressions
        return a is not None and b is not None and a[0] is b[0] and a[1] + 1 == b[1]

    def _run(self, run: Sequence[Size]) -> ir.Value:
        if not is_symbolic(run[0]):
            return self.op.const(list(run), dtype=INT64)
        if len(run) == 1:
            return self.vector(run[0])
        value, axis = self.places[run[0]]  # type: ignore[index]
        return self.op.Shape(value, start=axis, end=axis + len(run))

    def _compute(self, expr: sympy.Basic) -> ir.Value:
        if isinstance(expr, sympy.Symbol):
            if expr not in self.sources and isinstance(expr, NamedSize):
                return self.vector(expr.definition)
            if expr not in self.sources:
                raise UnboundSymbol(f"no value of the graph determines the size '{expr}'")
            return self.sources[expr]()
        row = FUNCTIONS.get(type(expr).__name__)
        if row is None:
            raise UnboundSymbol(f"the symbolic function '{type(expr).__name__}' in '{expr}' has no row in the table")
        return row(self, expr)

    def numbers(self, *arguments: sympy.Basic) -> list[ir.Value]:
        """Arguments in one type: DOUBLE if any of them is a float, else INT64."""
        if any(is_beyond(each) for each in arguments) and not all(each.is_integer for each in arguments):
            return self.doubles(*(sympy.Float(each) if is_beyond(each) else each for each in arguments))
        values = [self.vector(argument) for argument in arguments]  # type: ignore[arg-type]
        if any(value.dtype == DOUBLE for value in values):
            return [value if value.dtype == DOUBLE else self.op.Cast(value, to=DOUBLE) for value in values]
        return values

    def doubles(self, *arguments: sympy.Basic) -> list[ir.Value]:
        values = [self.vector(argument) for argument in arguments]  # type: ignore[arg-type]
        return [value if value.dtype == DOUBLE else self.op.Cast(value, to=DOUBLE) for value in values]


def _dtype_of(value: Any) -> ir.DataType:
    return BOOL if isinstance(value, bool) else INT64 if isinstance(value, int) else DOUBLE


Row = Callable[[Symbols, Any], ir.Value]


def _fold(op_type: str) -> Row:
    """Functions of any number of arguments, as a chain of a binary operator."""

    def row(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
        return reduce(getattr(symbols.op, op_type), symbols.numbers(*expr.args))

    return row


def _extreme(op_type: str) -> Row:
    return lambda symbols, expr: reduce(getattr(symbols.op, op_type), symbols.numbers(*reached(expr)))


def _add(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
    """A sum, with what is subtracted subtracted: `a - b` is one node rather than two."""
    plus = [term for term in expr.args if not term.could_extract_minus_sign()]  # type: ignore[attr-defined]
    minus = [-term for term in expr.args if term.could_extract_minus_sign()]  # type: ignore[attr-defined,operator]
    values = symbols.numbers(*(plus or [sympy.Integer(0)]), *minus)
    head, tail = values[: len(values) - len(minus)], values[len(values) - len(minus) :]
    return reduce(symbols.op.Sub, tail, reduce(symbols.op.Add, head))


def _power(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
    base, exponent = expr.args
    if not exponent.is_integer or not exponent.is_nonnegative:
        return symbols.op.Pow(*symbols.doubles(base, exponent))
    return _natural_power(symbols, expr)


def _natural_power(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
    """By products: ONNX Runtime computes powers of whole numbers in floats."""
    base, exponent = expr.args
    op, value = symbols.op, symbols.vector(base)  # type: ignore[arg-type]
    if exponent.is_Integer:
        return _constant_power(op, value, int(exponent))  # type: ignore[call-overload]
    times, one, two = symbols.vector(exponent), op.const([1]), op.const([2])  # type: ignore[arg-type]
    far = op.Greater(times, op.const([MOST_FACTORS]))  # of 0, 1 and -1, by whether there is an even number of them
    times = op.Where(far, op.Add(op.Mod(times, two), op.const([MOST_FACTORS - 1])), times)
    result = one
    for bit in range(MOST_FACTORS.bit_length()):
        value = op.Mul(value, value) if bit else value
        result = op.Where(op.Equal(op.Mod(times, two), one), op.Mul(result, value), result)
        times = op.Div(times, two)
    return result


def _constant_power(op: Op, value: ir.Value, exponent: int) -> ir.Value:
    if exponent == 0:
        return op.const([1])
    half = _constant_power(op, value, exponent // 2) if exponent > 1 else None
    squared = value if half is None else op.Mul(half, half)
    return op.Mul(squared, value) if half is not None and exponent % 2 else squared


def _floor_division(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
    """Python's `//`: ONNX's Div of integers truncates, so of a size what is left over is taken away first."""
    op, (a, b) = symbols.op, symbols.numbers(*expr.args)
    if a.dtype == DOUBLE:
        return op.Floor(op.Div(a, b))
    dividend, divisor = (symbols.as_sizes(each) for each in expr.args)
    if dividend.is_nonnegative and divisor.is_positive:
        return op.Div(a, b)
    if free_unbacked_symbols(expr):  # numbers from data may be as large as any
        return floor_quotient(op, a, b, op.Less(b, op.const([0])))
    return op.Div(op.Sub(a, op.Mod(a, b)), b)


def floor_quotient(op: Op, a: ir.Value, b: ir.Value, is_negative: ir.Value | bool) -> ir.Value:
    """Compute the floor of a quotient of INT64 from ONNX's, which truncates; no step of it overflows.

    Args:
        op: The builder.
        a: The dividend.
        b: The divisor.
        is_negative: Whether the divisor is negative.
    """
    quotient = op.Div(a, b)
    rest, zero = op.Sub(a, op.Mul(quotient, b)), op.const(0, like=a)  # of the dividend's sign
    if isinstance(is_negative, bool):
        is_above = op.Greater(rest, zero) if is_negative else op.Less(rest, zero)
    else:
        is_above = op.And(op.Not(op.Equal(rest, zero)), op.Xor(op.Less(rest, zero), is_negative))
    return op.Sub(quotient, op.Cast(is_above, to=INT64))


def _modulo(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
    """Python's `%`: the sign of the divisor, which is what ONNX's Mod does with integers."""
    return symbols.op.Mod(*symbols.numbers(*expr.args))


def _to_int(rounding: str | None) -> Row:
    def row(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
        (value,) = symbols.doubles(*expr.args)
        rounded = value if rounding is None else getattr(symbols.op, rounding)(value)
        return symbols.op.Cast(rounded, to=INT64)

    return row


def _compare(op_type: str, negated: bool = False) -> Row:
    def row(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
        if (known := decided(expr)) is not None:
            return symbols.op.const([known])
        result = getattr(symbols.op, op_type)(*symbols.numbers(*expr.args))
        return symbols.op.Not(result) if negated else result

    return row


def _not(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
    return symbols.op.Not(symbols.vector(expr.args[0]))  # type: ignore[arg-type]


def _truths(op_type: str) -> Row:
    def row(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
        return reduce(getattr(symbols.op, op_type), [symbols.vector(each) for each in expr.args])  # type: ignore[arg-type]

    return row


def _piecewise(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
    cases = [(case.args[0], case.args[1]) for case in expr.args]
    values = symbols.numbers(*(value for value, _ in cases))
    result = values[-1]
    for value, (_, condition) in zip(values[-2::-1], cases[-2::-1], strict=True):
        result = symbols.op.Where(symbols.vector(condition), value, result)  # type: ignore[arg-type]
    return result


def _if_then_else(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
    """Compute a choice of two truth values; ONNX Runtime's Where takes none."""
    op, (condition, a, b) = symbols.op, [symbols.vector(each) for each in expr.args]  # type: ignore[arg-type]
    return op.Or(op.And(condition, a), op.And(op.Not(condition), b))


def _where(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
    condition, a, b = expr.args
    return symbols.op.Where(symbols.vector(condition), *symbols.numbers(a, b))  # type: ignore[arg-type]


def _bitwise(op_type: str) -> Row:
    """Of whole numbers, and of truth values as 0 and 1."""

    def row(symbols: Symbols, expr: sympy.Basic) -> ir.Value:
        values = [symbols.vector(each) for each in expr.args]  # type: ignore[arg-type]
        return getattr(symbols.op, op_type)(*(symbols.op.cast(each, INT64) for each in values))

    return row


FUNCTIONS: Mapping[str, Row] = {
    **float_functions.ROWS,
    "Add": _add,
    "Mul": _fold("Mul"),
    "Pow": _power,
    "PowByNatural": _natural_power,
    "FloorDiv": _floor_division,
    "CleanDiv": _floor_division,
    "Mod": _modulo,
    "PythonMod": _modulo,
    "Max": _extreme("Max"),
    "Min": _extreme("Min"),
    "floor": _to_int("Floor"),
    "ceiling": _to_int("Ceil"),
    "FloorToInt": _to_int("Floor"),
    "CeilToInt": _to_int("Ceil"),
    "TruncToInt": _to_int(None),
    "RoundToInt": _to_int("Round"),
    "Identity": lambda symbols, expr: symbols.vector(expr.args[0]),
    "Abs": lambda symbols, expr: symbols.op.Abs(symbols.vector(expr.args[0])),
    "BitwiseFn_bitwise_and": _bitwise("BitwiseAnd"),
    "BitwiseFn_bitwise_or": _bitwise("BitwiseOr"),
    "BitwiseFn_bitwise_xor": _bitwise("BitwiseXor"),
    "Piecewise": _piecewise,
    "ITE": _if_then_else,
    "Where": _where,
    "StrictGreaterThan": _compare("Greater"),
    "GreaterThan": _compare("GreaterOrEqual"),
    "StrictLessThan": _compare("Less"),
    "LessThan": _compare("LessOrEqual"),
    "Equality": _compare("Equal"),
    "Unequality": _compare("Equal", negated=True),
    "Not": _not,
    "And": _truths("And"),
    "Or": _truths("Or"),
}
"""By the name of the function's class in sympy and in `torch.utils._sympy.functions`."""
