"""Complex numbers as pairs of real ones: the arithmetic in which the rows of `complex_to_real` are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

Real = torch.Tensor | int | float
"""One part of a complex number: a tensor, or a number that stands for a tensor full of it."""

REAL_DTYPES = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}


class NoRealForm(Exception):
    """Raised by a row for arguments that it cannot take; the text is the reason that the user reads."""


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of a complex dtype's parts; any other dtype is its own."""
    return REAL_DTYPES.get(dtype, dtype)


def plus(a: Real, b: Real) -> Real:
    """`a + b`; a part that is the number 0 costs nothing."""
    return b if _is(a, 0) else a if _is(b, 0) else a + b


def minus(a: Real, b: Real) -> Real:
    return negated(b) if _is(a, 0) else a if _is(b, 0) else a - b


def times(a: Real, b: Real) -> Real:
    """`a * b`, where the number 0 wins also over infinity: a real factor has no imaginary part that could be NaN."""
    if _is(a, 0) or _is(b, 0):
        return 0.0
    return b if _is(a, 1) else a if _is(b, 1) else a * b


def negated(a: Real) -> Real:
    return a if _is(a, 0) else -a


def _is(a: Real, number: int) -> bool:
    return isinstance(a, (int, float)) and a == number


@dataclass(frozen=True, slots=True)
class Complex:
    """`re + i im`. Both parts broadcast to its shape; a real number is one whose `im` is the number 0."""

    re: Real
    im: Real

    @staticmethod
    def of(x: Any) -> Complex:
        """Anything that an operand of a complex op may be: complex or real, tensor or number."""
        if isinstance(x, Packed):
            return x.parts
        if isinstance(x, complex):
            return Complex(x.real, x.imag)
        return x if isinstance(x, Complex) else Complex(x, 0.0)

    @property
    def is_real(self) -> bool:
        return _is(self.im, 0)

    def __add__(self, other: Complex) -> Complex:
        return Complex(plus(self.re, other.re), plus(self.im, other.im))

    def __sub__(self, other: Complex) -> Complex:
        return Complex(minus(self.re, other.re), minus(self.im, other.im))

    def __neg__(self) -> Complex:
        return Complex(negated(self.re), negated(self.im))

    def __mul__(self, other: Complex) -> Complex:
        return Complex(
            minus(times(self.re, other.re), times(self.im, other.im)),
            plus(times(self.re, other.im), times(self.im, other.re)),
        )

    def __truediv__(self, other: Complex) -> Complex:
        """Smith's division (Comm. ACM 5, 1962), by the larger part of the divisor: no square over- or underflows."""
        if other.is_real:
            return Complex(_quotient(self.re, other.re), _quotient(self.im, other.re))
        if not isinstance(other.re, torch.Tensor) and not isinstance(other.im, torch.Tensor):
            inverse = 1 / complex(other.re, other.im)  # type: ignore[arg-type]  # plain numbers
            return self * Complex(inverse.real, inverse.imag)
        c, d = as_tensors(other)
        wide = c.abs() >= d.abs()
        large, small = torch.where(wide, c, d), torch.where(wide, d, c)
        ratio = torch.where(large == 0, small, small / large)
        divisor = large + small * ratio
        along, across = self * Complex(ratio, 0.0), self
        re = _select(wide, plus(across.re, along.im), plus(along.re, across.im))
        im = _select(wide, minus(across.im, along.re), minus(along.im, across.re))
        return Complex(re / divisor, im / divisor)

    @property
    def conj(self) -> Complex:
        return Complex(self.re, negated(self.im))

    @property
    def times_i(self) -> Complex:
        return Complex(negated(self.im), self.re)

    def scaled(self, factor: Real) -> Complex:
        return Complex(times(self.re, factor), times(self.im, factor))

    @property
    def squared_abs(self) -> Real:
        return plus(times(self.re, self.re), times(self.im, self.im))

    @property
    def abs(self) -> Real:
        if self.is_real:
            return abs(self.re)
        return torch.hypot(*as_tensors(self))

    @property
    def angle(self) -> torch.Tensor:
        re, im = as_tensors(self)
        return torch.atan2(im, re)


def _quotient(a: Real, b: Real) -> Real:
    return 0.0 if _is(a, 0) else a / b


def _select(condition: torch.Tensor, a: Real, b: Real) -> torch.Tensor:
    return torch.where(condition, a, b)


def as_tensors(z: Complex) -> tuple[torch.Tensor, torch.Tensor]:
    """Both parts as tensors of one shape, where at least one of them is a tensor."""
    like = z.re if isinstance(z.re, torch.Tensor) else z.im
    assert isinstance(like, torch.Tensor), "a complex number of which no part is a tensor"
    re = z.re if isinstance(z.re, torch.Tensor) else torch.full_like(like, z.re)
    im = z.im if isinstance(z.im, torch.Tensor) else torch.full_like(like, z.im)
    return re, im


class Packed:
    """A complex tensor between rows: as one real tensor with a last axis of 2, as two parts, or as both once asked."""

    def __init__(self, packed: torch.Tensor | None = None, parts: Complex | None = None) -> None:
        self._packed = packed
        self._parts = parts

    @property
    def only_parts(self) -> bool:
        return self._packed is None

    @property
    def packed(self) -> torch.Tensor:
        if self._packed is None:
            assert self._parts is not None
            self._packed = torch.stack(as_tensors(self._parts), -1)
        return self._packed

    @property
    def parts(self) -> Complex:
        if self._parts is None:
            assert self._packed is not None
            self._parts = Complex(self._packed.select(-1, 0), self._packed.select(-1, 1))
        return self._parts
