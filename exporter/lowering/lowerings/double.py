"""Float64 forms of operators for which ONNX Runtime's CPU provider has float32 kernels only.

Casts around those operators would leave float64 results with the digits of float32. These forms use Exp, Log, Sin, Cos,
Sqrt and Tanh, which have float64 kernels, and tables; they are within 1e-14 of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import mpmath
import onnx_ir as ir

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.signs import with_sign
from fxport.exporter.lowering.lowerings.exponential import expm1, log1p
from fxport.exporter.lowering.lowerings.piecewise import Table, evaluate

DOUBLE = ir.DataType.DOUBLE

ARC_TANGENT = Table(lambda x: mpmath.atan(x) / x, 0.0, 1.0, pieces=16)
ERROR_FUNCTION = Table(lambda x: mpmath.erf(x) / x, 0.0, 6.0)
"""From the end of the table on, erf is 1 to the last bit."""


def _tan(op: Op, x: Value) -> Value:
    return op.Div(op.Sin(x), op.Cos(x))


def _cosh(op: Op, x: Value) -> Value:
    return op.Mul(op.Add(op.Exp(x), op.Exp(op.Neg(x))), 0.5)


def _sinh(op: Op, x: Value) -> Value:
    """tanh(x) cosh(x): nothing cancels near 0."""
    return op.Mul(op.Tanh(x), _cosh(op, x))


def _atan(op: Op, x: Value) -> Value:
    """A table up to 1; beyond, a quarter turn less the arc tangent of the reciprocal."""
    length = op.Abs(x)
    steep = op.Greater(length, 1)
    slope = op.Where(steep, op.Reciprocal(length), length)
    angle = op.Mul(slope, evaluate(op, ARC_TANGENT, slope))
    return with_sign(op, op.Where(steep, op.Sub(math.pi / 2, angle), angle), x)


def _asin(op: Op, x: Value) -> Value:
    return _atan(op, op.Div(x, op.Sqrt(op.Mul(op.Sub(1, x), op.Add(x, 1)))))


def _acos(op: Op, x: Value) -> Value:
    """By half the angle, whose tangent is sqrt((1 - x) / (1 + x))."""
    return op.Mul(_atan(op, op.Sqrt(op.Div(op.Sub(1, x), op.Add(x, 1)))), 2)


def _asinh(op: Op, x: Value) -> Value:
    """log1p(|x| + x² / (1 + sqrt(1 + x²))), with x's sign."""
    length, square = op.Abs(x), op.Mul(x, x)
    beyond = op.Div(square, op.Add(op.Sqrt(op.Add(square, 1)), 1))
    near = log1p(op, op.Add(length, beyond))
    far = op.Add(op.Log(length), math.log(2))
    return with_sign(op, op.Where(op.Greater(length, 1e9), far, near), x)


def _acosh(op: Op, x: Value) -> Value:
    """log1p(t + sqrt(t) sqrt(t + 2)) with t = x - 1: two roots, so that NaN comes where t is negative."""
    t = op.Sub(x, 1)
    near = log1p(op, op.Add(t, op.Mul(op.Sqrt(t), op.Sqrt(op.Add(t, 2)))))
    return op.Where(op.Greater(x, 1e9), op.Add(op.Log(x), math.log(2)), near)


def _atanh(op: Op, x: Value) -> Value:
    return op.Mul(log1p(op, op.Div(op.Mul(x, 2), op.Sub(1, x))), 0.5)


def _erf(op: Op, x: Value) -> Value:
    length = op.Min(op.Abs(x), op.const(ERROR_FUNCTION.high, like=x))
    return with_sign(op, op.Mul(length, evaluate(op, ERROR_FUNCTION, length)), x)


def _softplus(op: Op, x: Value) -> Value:
    return op.Add(op.Relu(x), log1p(op, op.Exp(op.Neg(op.Abs(x)))))


FORMS: Mapping[str, Callable[[Op, Value], Value]] = {
    "Acos": _acos,
    "Acosh": _acosh,
    "Asin": _asin,
    "Asinh": _asinh,
    "Atan": _atan,
    "Atanh": _atanh,
    "Cosh": _cosh,
    "Erf": _erf,
    "Sinh": _sinh,
    "Softplus": _softplus,
    "Tan": _tan,
}
"""By the operator that they stand for."""


def unary(op: Op, op_type: str, x: Value) -> Value:
    """An operator of one float tensor, in its float64 form where there is one."""
    return FORMS[op_type](op, x) if x.dtype == DOUBLE and op_type in FORMS else op.call(op_type, x)


def hard_sigmoid(op: Op, x: Value) -> Value:
    return op.Clip(op.Add(op.Div(x, 6), 0.5), op.const(0, like=x), op.const(1, like=x))


def leaky_relu(op: Op, x: Value, slope: Value | Scalar) -> Value:
    return op.Where(op.Less(x, 0), op.Mul(x, slope), x)


def elu(op: Op, x: Value, alpha: Scalar) -> Value:
    return op.Where(op.Greater(x, 0), x, op.Mul(expm1(op, x), alpha))
