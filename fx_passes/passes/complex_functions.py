"""Rows of `complex_to_real`: powers, exponentials, logarithms, roots, trigonometric and hyperbolic functions.

Principal values, with the branch cuts of C99. The inverse functions are Kahan's ("Branch Cuts for Complex Elementary
Functions", 1987), which keep their accuracy near the branch points; signs of zero choose the side of a cut.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping
from typing import Any

import torch

from fxport.fx_passes.passes.complex_arithmetic import Row, on_complex, where
from fxport.fx_passes.passes.complex_values import Complex, Real, as_tensors

aten = torch.ops.aten

ONE = Complex(1.0, 0.0)


def _abs(z: Complex) -> Real:
    return z.abs


def exp(z: Complex) -> Complex:
    re, im = as_tensors(z)
    size = torch.exp(re)
    return Complex(size * torch.cos(im), size * torch.sin(im))


def _expm1(z: Complex) -> Complex:
    """`e^a cos b - 1` as `expm1(a) cos b - 2 sin²(b/2)`, where nothing cancels."""
    re, im = as_tensors(z)
    half = torch.sin(im / 2)
    return Complex(torch.expm1(re) * torch.cos(im) - 2 * half * half, torch.exp(re) * torch.sin(im))


def log(z: Complex) -> Complex:
    size = z.abs
    assert isinstance(size, torch.Tensor)
    return Complex(torch.log(size), z.angle)


def _log1p(z: Complex) -> Complex:
    """Near 0 by `log1p(a (2 + a) + b²) / 2`, elsewhere as the logarithm of 1 + z."""
    re, im = as_tensors(z)
    size = z.abs
    assert isinstance(size, torch.Tensor)
    far = log(ONE + z)
    near = torch.log1p(re * (2 + re) + im * im) / 2
    return Complex(torch.where(size < 0.5, near, far.re), far.im)


def sqrt(z: Complex) -> Complex:
    """With `t = sqrt((|a| + |z|) / 2)`: `t + i b/2t` right of the imaginary axis, `|b|/2t ± i t` left of it."""
    re, im = as_tensors(z)
    size = z.abs
    assert isinstance(size, torch.Tensor)
    root = torch.sqrt((re.abs() + size) / 2)
    other = im.abs() / torch.where(root == 0, 1.0, 2 * root)
    right = re >= 0
    return Complex(torch.where(right, root, other), torch.copysign(torch.where(right, other, root), im))


def _sin(z: Complex) -> Complex:
    a, b = as_tensors(z)
    return Complex(torch.sin(a) * torch.cosh(b), torch.cos(a) * torch.sinh(b))


def _cos(z: Complex) -> Complex:
    a, b = as_tensors(z)
    return Complex(torch.cos(a) * torch.cosh(b), -torch.sin(a) * torch.sinh(b))


def _sinh(z: Complex) -> Complex:
    a, b = as_tensors(z)
    return Complex(torch.sinh(a) * torch.cos(b), torch.cosh(a) * torch.sin(b))


def _cosh(z: Complex) -> Complex:
    a, b = as_tensors(z)
    return Complex(torch.cosh(a) * torch.cos(b), torch.sinh(a) * torch.sin(b))


def _tanh(z: Complex) -> Complex:
    """By `t = tanh a` and `u = tan b`: `(t (1 + u²) + i u / cosh² a) / (1 + t² u²)`, which never overflows."""
    a, b = as_tensors(z)
    t, u, c = torch.tanh(a), torch.tan(b), torch.cosh(a)
    divisor = 1 + t * t * u * u
    return Complex(t * (1 + u * u) / divisor, u / (c * c) / divisor)


def turned(function: Any) -> Any:
    """The trigonometric function of a hyperbolic one, or the other way round: `f(z) = -i g(i z)`."""

    def row(z: Complex) -> Complex:
        return -function(z.times_i).times_i

    return row


def _asin(z: Complex) -> Complex:
    low, high = sqrt(ONE - z), sqrt(ONE + z)
    re, _ = as_tensors(z)
    return Complex(torch.atan2(re, _tensor((low * high).re)), torch.asinh(_tensor((low.conj * high).im)))


def _acos(z: Complex) -> Complex:
    low, high = sqrt(ONE - z), sqrt(ONE + z)
    return Complex(2 * torch.atan2(_tensor(low.re), _tensor(high.re)), torch.asinh(_tensor((high.conj * low).im)))


def _acosh(z: Complex) -> Complex:
    low, high = sqrt(z - ONE), sqrt(z + ONE)
    return Complex(torch.asinh(_tensor((low.conj * high).re)), 2 * torch.atan2(_tensor(low.im), _tensor(high.re)))


def _atanh(z: Complex) -> Complex:
    a, b = as_tensors(z)
    re = torch.log1p(4 * a / ((1 - a) * (1 - a) + b * b)) / 4
    return Complex(re, torch.atan2(2 * b, (1 - a) * (1 + a) - b * b) / 2)


def _tensor(part: Real) -> torch.Tensor:
    assert isinstance(part, torch.Tensor)
    return part


def pow_(base: Complex, exponent: Complex) -> Complex:
    """Small whole powers by products, everything else by polar coordinates."""
    if exponent.is_real and isinstance(exponent.re, (int, float)) and exponent.re in _WHOLE:
        return _WHOLE[int(exponent.re)](base)
    if exponent.is_real and isinstance(exponent.re, float) and exponent.re == 0.5:
        return sqrt(base)
    if not isinstance(base.re, torch.Tensor) and not isinstance(base.im, torch.Tensor):
        number = complex(base.re, base.im)  # type: ignore[arg-type]  # plain numbers
        if number == 0:
            return _power_of_nought(exponent)
        return exp(exponent * Complex(math.log(abs(number)), cmath.phase(number)))
    size = _tensor(base.abs)
    nought = size == 0
    if isinstance(exponent.re, torch.Tensor) and not exponent.re.is_floating_point():  # which has no NaN
        exponent = Complex(exponent.re.to(size.dtype), 0.0)
    result = exp(exponent * Complex(torch.log(torch.where(nought, 1.0, size)), base.angle))
    return where(nought, _power_of_nought(exponent), result)


def _power_of_nought(exponent: Complex) -> Complex:
    """0 where the exponent's real part is positive; elsewhere infinity or no number at all, as eager PyTorch has it."""
    if not isinstance(exponent.re, torch.Tensor):
        return Complex(0.0, 0.0) if exponent.re > 0 else Complex(math.inf if exponent.re < 0 else math.nan, math.nan)
    fine = exponent.re > 0
    size = torch.where(exponent.re < 0, math.inf, torch.full_like(exponent.re, math.nan))
    return Complex(torch.where(fine, 0.0, size), torch.where(fine, 0.0, torch.full_like(exponent.re, math.nan)))


_WHOLE: Mapping[int, Any] = {
    0: lambda z: Complex(torch.ones_like(as_tensors(z)[0]), 0.0),
    1: lambda z: z,
    2: lambda z: z * z,
    3: lambda z: z * z * z,
    -1: lambda z: ONE / z,
    -2: lambda z: ONE / (z * z),
}


def _sigmoid(z: Complex) -> Complex:
    return ONE / (ONE + exp(-z))


def _sgn(z: Complex) -> Complex:
    size = z.abs
    assert isinstance(size, torch.Tensor)
    return z / Complex(torch.where(size == 0, 1.0, size), 0.0)


def logaddexp(x: Complex, y: Complex) -> Complex:
    """`log(e^x + e^y)`, around the one with the larger real part."""
    swap = _tensor(x.re) < y.re
    large, small = where(swap, y, x), where(swap, x, y)
    return large + _log1p(exp(small - large))


ROWS: Mapping[Any, Row] = {
    aten.abs.default: on_complex(_abs),
    aten.angle.default: on_complex(lambda z: z.angle),
    aten.sgn.default: on_complex(_sgn),
    aten.exp.default: on_complex(exp),
    aten.exp2.default: on_complex(lambda z: exp(z.scaled(math.log(2)))),
    aten.expm1.default: on_complex(_expm1),
    aten.log.default: on_complex(log),
    aten.log2.default: on_complex(lambda z: log(z).scaled(1 / math.log(2))),
    aten.log10.default: on_complex(lambda z: log(z).scaled(1 / math.log(10))),
    aten.log1p.default: on_complex(_log1p),
    aten.logaddexp.default: on_complex(logaddexp),
    aten.sqrt.default: on_complex(sqrt),
    aten.rsqrt.default: on_complex(lambda z: ONE / sqrt(z)),
    aten.sin.default: on_complex(_sin),
    aten.cos.default: on_complex(_cos),
    aten.tan.default: on_complex(turned(_tanh)),
    aten.sinh.default: on_complex(_sinh),
    aten.cosh.default: on_complex(_cosh),
    aten.tanh.default: on_complex(_tanh),
    aten.asin.default: on_complex(_asin),
    aten.acos.default: on_complex(_acos),
    aten.atan.default: on_complex(turned(_atanh)),
    aten.asinh.default: on_complex(turned(_asin)),
    aten.acosh.default: on_complex(_acosh),
    aten.atanh.default: on_complex(_atanh),
    aten.pow.Tensor_Scalar: on_complex(pow_),
    aten.pow.Tensor_Tensor: on_complex(pow_),
    aten.pow.Scalar: on_complex(pow_),
    aten.sigmoid.default: on_complex(_sigmoid),
    aten.silu.default: on_complex(lambda z: z * _sigmoid(z)),
}
