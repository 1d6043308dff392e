"""Rows of `complex_to_real`: ops that make complex tensors of numbers or at random."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from fxport.fx_passes.passes.complex_arithmetic import Row
from fxport.fx_passes.passes.complex_axes import packed
from fxport.fx_passes.passes.complex_functions import pow_
from fxport.fx_passes.passes.complex_values import REAL_DTYPES, Complex, Packed, Real, as_tensors, real_dtype

aten = torch.ops.aten


def _filled(position: int) -> Row:
    """A constant, for the argument at `position`; the sizes are those of the result."""
    return lambda *args, **kwargs: Complex.of(args[position] if len(args) > position else kwargs["fill_value"])


def _constant(number: float) -> Row:
    return lambda *args, **kwargs: Complex(number, 0.0)


def _fill(x: Any, value: Any) -> Complex:
    z = Complex.of(value)
    return z if not isinstance(z.re, torch.Tensor) else Complex(*as_tensors(z))


def _eye(*sizes: Any, dtype: torch.dtype | None = None, **options: Any) -> Complex:
    return Complex(torch.eye(*sizes, dtype=real_dtype(dtype or torch.get_default_dtype())), 0.0)


def _normal(sizes: Any, *, dtype: torch.dtype, **options: Any) -> Packed:
    """Parts of variance 1/2 each, so that the numbers have variance 1."""
    return Packed(torch.randn([*sizes, 2], dtype=real_dtype(dtype)) * math.sqrt(0.5))


def _normal_like(x: Any, *, dtype: torch.dtype | None = None, **options: Any) -> Packed:
    like = x.packed if isinstance(x, Packed) else torch.stack(as_tensors(Complex.of(x)), -1)
    return Packed(torch.randn_like(like, dtype=REAL_DTYPES.get(dtype)) * math.sqrt(0.5))  # type: ignore[arg-type]


def _uniform(sizes: Any, *, dtype: torch.dtype, **options: Any) -> Packed:
    return Packed(torch.rand([*sizes, 2], dtype=real_dtype(dtype)))


def _uniform_like(x: Any, *, dtype: torch.dtype | None = None, **options: Any) -> Packed:
    like = x.packed if isinstance(x, Packed) else torch.stack(as_tensors(Complex.of(x)), -1)
    return Packed(torch.rand_like(like, dtype=REAL_DTYPES.get(dtype)))  # type: ignore[arg-type]


def _redrawn(x: Any, start: float = 0.0, end: float = 1.0, **options: Any) -> Packed:
    return Packed(aten.uniform.default(packed(x), start, end))


def _redrawn_normal(x: Any, mean: float = 0.0, std: float = 1.0, **options: Any) -> Packed:
    """Half of the variance is that of each part."""
    return Packed(aten.normal_functional.default(packed(x), mean, std / math.sqrt(2)))


def _linspace(start: Complex, end: Complex, steps: int) -> Complex:
    """Evenly spaced from both ends, as ATen does: the last number is `end` itself."""
    count = torch.arange(steps)
    first = count < steps // 2

    def part(a: Real, b: Real) -> torch.Tensor:
        step = (b - a) / max(steps - 1, 1)
        return torch.where(first, a + step * count, b - step * (steps - 1 - count))

    if steps == 1:
        return Complex(*(part + torch.zeros(1) for part in (start.re, start.im)))
    return Complex(part(start.re, end.re), part(start.im, end.im))


def _linear(start: Any, end: Any, steps: int, **options: Any) -> Complex:
    return _linspace(Complex.of(start), Complex.of(end), steps)


def _powers(start: Any, end: Any, steps: int, base: float = 10.0, **options: Any) -> Complex:
    return pow_(Complex(base, 0.0), _linspace(Complex.of(start), Complex.of(end), steps))


ROWS: Mapping[Any, Row] = {
    **dict.fromkeys((aten.full.default, aten.full_like.default), _filled(1)),
    aten.new_full.default: _filled(2),
    aten.scalar_tensor.default: lambda number, **options: Complex.of(number),
    **dict.fromkeys((aten.fill.Scalar, aten.fill.Tensor), _fill),
    **dict.fromkeys(
        (
            aten.empty.memory_format,
            aten.empty_like.default,
            aten.empty_permuted.default,
            aten.empty_strided.default,
            aten.new_empty.default,
            aten.new_empty_strided.default,
            aten.new_zeros.default,
            aten.zeros.default,
            aten.zeros_like.default,
        ),
        _constant(0.0),
    ),
    **dict.fromkeys((aten.new_ones.default, aten.ones.default, aten.ones_like.default), _constant(1.0)),
    **dict.fromkeys((aten.eye.default, aten.eye.m), _eye),
    aten.randn.default: _normal,
    aten.randn_like.default: _normal_like,
    aten.rand.default: _uniform,
    aten.rand_like.default: _uniform_like,
    aten.uniform.default: _redrawn,
    aten.normal_functional.default: _redrawn_normal,
    **dict.fromkeys(
        (aten.linspace.default, aten.linspace.Tensor_Tensor, aten.linspace.Tensor_Scalar, aten.linspace.Scalar_Tensor),
        _linear,
    ),
    **dict.fromkeys(
        (aten.logspace.default, aten.logspace.Tensor_Tensor, aten.logspace.Tensor_Scalar, aten.logspace.Scalar_Tensor),
        _powers,
    ),
}
