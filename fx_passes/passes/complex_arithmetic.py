"""Rows of `complex_to_real`: arithmetic, comparisons, casts, parts and joins of parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from fxport.fx_passes.passes.complex_values import Complex, Packed, Real, as_tensors, plus, real_dtype, times
from fxport.fx_passes.sizes import same_sizes

aten, prims = torch.ops.aten, torch.ops.prims

Row = Callable[..., Any]


def on_complex(function: Row) -> Row:
    """A row all of whose positional operands are numbers to compute with."""

    def row(*operands: Any, **options: Any) -> Any:
        return function(*map(Complex.of, operands), **options)

    return row


def _add(x: Complex, y: Complex, alpha: Any = 1) -> Complex:
    return x + y * Complex.of(alpha)


def _sub(x: Complex, y: Complex, alpha: Any = 1) -> Complex:
    return x - y * Complex.of(alpha)


def _rsub(x: Complex, y: Complex, alpha: Any = 1) -> Complex:
    return y - x * Complex.of(alpha)


def _addcmul(x: Complex, a: Complex, b: Complex, value: Any = 1) -> Complex:
    return x + Complex.of(value) * a * b


def _addcdiv(x: Complex, a: Complex, b: Complex, value: Any = 1) -> Complex:
    return x + Complex.of(value) * a / b


def _lerp(x: Complex, end: Complex, weight: Complex) -> Complex:
    """Around the nearer end, as ATen does: at weight 1 the end itself comes out."""
    gap = end - x
    if isinstance(weight.re, torch.Tensor):
        near = times(weight.re, weight.re) + times(weight.im, weight.im) < 0.25
        return where(near, x + weight * gap, end - (Complex(1.0, 0.0) - weight) * gap)
    if weight.re**2 + weight.im**2 < 0.25:  # type: ignore[operator]  # numbers
        return x + weight * gap
    return end - (Complex(1.0, 0.0) - weight) * gap


def where(condition: Any, x: Complex, y: Complex) -> Complex:
    """`x` where the condition holds, else `y`, each part by itself."""
    im: Real = 0.0 if x.is_real and y.is_real else torch.where(condition, *_two(x.im, y.im))
    return Complex(torch.where(condition, *_two(x.re, y.re)), im)


def _two(a: Real, b: Real) -> tuple[Any, Any]:
    """Two numbers become floats: `torch.where` gives those the default dtype."""
    return (a, b) if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor) else (float(a), float(b))


def _where(condition: Any, x: Any, y: Any) -> Complex:
    return where(truth(condition), Complex.of(x), Complex.of(y))


def truth(x: Any) -> Any:
    """Return the truth value of a number, `x != 0`; a bool stays as it is."""
    if isinstance(x, torch.Tensor):
        return x if x.dtype == torch.bool else x != 0
    z = Complex.of(x)
    return z.re != 0 if z.is_real else torch.logical_or(z.re != 0, z.im != 0)  # type: ignore[arg-type]


def _logical(function: Callable[..., torch.Tensor]) -> Row:
    return lambda *operands: function(*map(truth, operands))


def _eq(x: Complex, y: Complex) -> torch.Tensor:
    return torch.logical_and(*_compared(torch.eq, x, y))


def _ne(x: Complex, y: Complex) -> torch.Tensor:
    return torch.logical_or(*_compared(torch.ne, x, y))


def _compared(compare: Callable[..., torch.Tensor], x: Complex, y: Complex) -> tuple[torch.Tensor, torch.Tensor]:
    if not isinstance(x.re, torch.Tensor) and not isinstance(x.im, torch.Tensor):
        x, y = y, x
    re, im = as_tensors(x)
    return compare(re, y.re), compare(im, y.im)


def _isfinite(z: Complex) -> torch.Tensor:
    re, im = as_tensors(z)
    return torch.logical_and(torch.isfinite(re), torch.isfinite(im))


def _isnan(z: Complex) -> torch.Tensor:
    re, im = as_tensors(z)
    return torch.logical_or(torch.isnan(re), torch.isnan(im))


def _isinf(z: Complex) -> torch.Tensor:
    re, im = as_tensors(z)
    return torch.logical_or(torch.isinf(re), torch.isinf(im))


def _isreal(z: Complex) -> torch.Tensor:
    return as_tensors(z)[1] == 0


def _real(x: Any) -> Any:
    return Complex.of(x).re


def _imag(x: Any) -> torch.Tensor:
    return as_tensors(Complex.of(x))[1]


def _cast(x: Any, *further: Any, dtype: torch.dtype | None = None, **options: Any) -> Any:
    """To real: the real part. To complex: parts of the wanted precision."""
    given = [each for each in further if isinstance(each, torch.dtype)]
    z, wanted = Complex.of(x), dtype or (given[0] if given else None)
    if wanted is None:
        return x
    if wanted == torch.bool:
        return truth(x)
    if not wanted.is_complex:
        assert isinstance(z.re, torch.Tensor)
        return z.re.to(wanted)
    parts = (part.to(real_dtype(wanted)) if isinstance(part, torch.Tensor) else part for part in (z.re, z.im))
    return Complex(*parts)


def _copy(x: Any, src: Any, non_blocking: bool = False) -> Any:
    """The values of `src` in the dtype and the sizes of `x`."""
    there = Complex.of(x).re
    assert isinstance(there, torch.Tensor)
    parts = (
        part.to(there.dtype).expand(there.shape) if isinstance(part, torch.Tensor) else part
        for part in (Complex.of(src).re, Complex.of(src).im)
    )
    return next(parts) if isinstance(x, torch.Tensor) else Complex(*parts)


def _view_as_real(x: Packed) -> torch.Tensor:
    return x.packed


def _view_as_complex(x: torch.Tensor) -> Packed:
    return Packed(x)


def _view_dtype(x: Any, dtype: torch.dtype) -> Any:
    """The same bytes: twice as many real numbers along the last axis, or half as many complex ones."""
    if isinstance(x, Packed):
        return x if dtype.is_complex else x.packed.flatten(-2) if x.packed.dim() > 1 else x.packed
    return Packed(x.unflatten(-1, (-1, 2)))


def _complex(re: torch.Tensor, im: torch.Tensor) -> Complex:
    """Make numbers of their parts, each in the sizes of both: where only data tells those, no tensor has them yet."""
    if same_sizes(re, im):
        return Complex(re, im)
    return Complex(re * torch.ones_like(im), im * torch.ones_like(re))


def _polar(size: torch.Tensor, angle: torch.Tensor) -> Complex:
    return Complex(size * torch.cos(angle), size * torch.sin(angle))


def _masked_fill(x: Any, mask: torch.Tensor, value: Any) -> Complex:
    return where(mask, Complex.of(value), Complex.of(x))


def _isclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> torch.Tensor:
    """`|x - y| <= atol + rtol * |y|`, or equal, which also holds for infinities."""
    a, b = Complex.of(x), Complex.of(y)
    error = (a - b).abs
    assert isinstance(error, torch.Tensor)
    near = torch.logical_and(error <= plus(atol, times(rtol, b.abs)), torch.isfinite(error))
    close = torch.logical_or(_eq(a, b), near)
    if not equal_nan:
        return close
    return torch.logical_or(close, torch.logical_and(_isnan(a), _isnan(b)))


ADD, SUB, MUL = on_complex(_add), on_complex(_sub), on_complex(lambda x, y: x * y)
DIV = on_complex(lambda x, y: x / y)

ROWS: Mapping[Any, Row] = {
    aten.add.Tensor: ADD,
    aten.add.Scalar: ADD,
    aten.sub.Tensor: SUB,
    aten.sub.Scalar: SUB,
    aten.rsub.Tensor: on_complex(_rsub),
    aten.rsub.Scalar: on_complex(_rsub),
    aten.mul.Tensor: MUL,
    aten.mul.Scalar: MUL,
    aten.div.Tensor: DIV,
    aten.div.Scalar: DIV,
    prims.add.default: ADD,
    prims.sub.default: SUB,
    prims.mul.default: MUL,
    prims.div.default: DIV,
    aten.reciprocal.default: on_complex(lambda z: Complex(1.0, 0.0) / z),
    aten.square.default: on_complex(lambda z: z * z),
    aten.neg.default: on_complex(lambda z: -z),
    aten._neg_view.default: on_complex(lambda z: -z),
    aten.conj.default: on_complex(lambda z: z.conj),
    aten._conj.default: on_complex(lambda z: z.conj),
    aten._conj_physical.default: on_complex(lambda z: z.conj),
    aten.conj_physical.default: on_complex(lambda z: z.conj),
    aten.addcmul.default: on_complex(_addcmul),
    aten.addcdiv.default: on_complex(_addcdiv),
    aten.lerp.Scalar: on_complex(_lerp),
    aten.lerp.Tensor: on_complex(_lerp),
    aten.where.self: _where,
    aten.where.Scalar: _where,
    aten.where.ScalarOther: _where,
    aten.where.ScalarSelf: _where,
    aten.masked_fill.Scalar: _masked_fill,
    aten.masked_fill.Tensor: _masked_fill,
    aten.eq.Tensor: on_complex(_eq),
    aten.eq.Scalar: on_complex(_eq),
    aten.ne.Tensor: on_complex(_ne),
    aten.ne.Scalar: on_complex(_ne),
    aten.isclose.default: _isclose,
    aten.logical_not.default: _logical(torch.logical_not),
    aten.logical_and.default: _logical(torch.logical_and),
    aten.logical_or.default: _logical(torch.logical_or),
    aten.logical_xor.default: _logical(torch.logical_xor),
    aten.isnan.default: on_complex(_isnan),
    aten.isinf.default: on_complex(_isinf),
    aten.isfinite.default: on_complex(_isfinite),
    aten.isreal.default: on_complex(_isreal),
    aten.real.default: _real,
    aten.imag.default: _imag,
    aten.view_as_real.default: _view_as_real,
    aten.view_as_complex.default: _view_as_complex,
    aten.view_as_complex_copy.default: _view_as_complex,
    aten.view.dtype: _view_dtype,
    aten.complex.default: _complex,
    aten.polar.default: _polar,
    aten._to_copy.default: _cast,
    aten.copy.default: _copy,
    aten.to.dtype: _cast,
    aten.to.dtype_layout: _cast,
    aten.to.device: _cast,
}
