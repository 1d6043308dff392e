"""Fourier transforms as PyTorch's core ones of complex and real numbers, after a resize of the axes.

PyTorch's own composition compares each size with the one that is asked for, to pad or to cut. Here an axis of which
neither is known to be the longer is padded by as much as is asked for, and then cut: that is right for all sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten

Sizes = Sequence[Any] | None
Dims = Sequence[int] | None

FACTORS: Mapping[tuple[str, bool], int] = {
    ("backward", True): 0,
    ("backward", False): 2,
    ("ortho", True): 1,
    ("ortho", False): 1,
    ("forward", True): 2,
    ("forward", False): 0,
}
"""ATen's number of a factor, for a norm and whether the transform goes forwards: 0 none, 1 root of the size, 2 size."""


def _factor(norm: str | None, forward: bool) -> int:
    return FACTORS[norm or "backward", forward]


def _floating(x: Tensor) -> Tensor:
    return x if x.is_floating_point() or x.is_complex() else x.to(torch.get_default_dtype())


def _complex(x: Tensor) -> Tensor:
    x = _floating(x)
    return x if x.is_complex() else x.to(x.dtype.to_complex())


def _resized(x: Tensor, dims: Sequence[int], sizes: Sequence[Any]) -> Tensor:
    """Each axis padded with zeros at its end, or cut, to a size."""
    for dim, size in zip(dims, sizes, strict=True):
        known = x.shape[dim]
        if statically_known_true(known == size):
            continue
        if not statically_known_true(known >= size):
            missing = size - known if statically_known_true(known <= size) else size
            shape = list(x.shape)
            shape[dim] = missing
            x = torch.cat([x, x.new_zeros(shape)], dim)
        x = x.narrow(dim, 0, size)
    return x


def _axes(x: Tensor, s: Sizes, dim: Dims) -> tuple[list[int], list[Any]]:
    """The axes to transform and the sizes that they get; -1 keeps the size."""
    if dim is None:
        dim = range(x.dim()) if s is None else range(x.dim() - len(s), x.dim())
    dims = [each % x.dim() for each in dim]
    sizes = [-1] * len(dims) if s is None else list(s)
    return dims, [x.shape[axis] if _is_kept(size) else size for axis, size in zip(dims, sizes, strict=True)]


def _is_kept(size: Any) -> bool:
    return isinstance(size, int) and size == -1


def _half(x: Tensor, s: Sizes, dim: Dims) -> tuple[Tensor, list[int], Any]:
    """A half spectrum in the sizes that it has for a result of size `s`, its axes, and the last size of the result."""
    dims, sizes = _axes(x, s, dim)
    last = 2 * (x.shape[dims[-1]] - 1) if s is None or _is_kept(s[-1]) else s[-1]
    return _resized(x, dims, [*sizes[:-1], last // 2 + 1]), dims, last


def _transform(forward: bool) -> Callable[..., Tensor]:
    """`fft` and `ifft` over all of the axes."""

    def transform(x: Tensor, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
        x = _complex(x)
        dims, sizes = _axes(x, s, dim)
        return aten._fft_c2c(_resized(x, dims, sizes), dims, _factor(norm, forward), forward) if dims else x

    return transform


def rfftn(x: Tensor, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    x = _floating(x)
    dims, sizes = _axes(x, s, dim)
    return aten._fft_r2c(_resized(x, dims, sizes), dims, _factor(norm, True), True)


def irfftn(x: Tensor, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """Over all axes but the last as of complex numbers, then over that one."""
    z, dims, last = _half(_complex(x), s, dim)
    factor = _factor(norm, False)
    if len(dims) > 1:
        z = aten._fft_c2c(z, dims[:-1], factor, False)
    return aten._fft_c2r(z, dims[-1:], factor, last)


def hfftn(x: Tensor, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """Forwards over all axes but the last, then the conjugate's inverse over that one."""
    z, dims, last = _half(_complex(x), s, dim)
    factor = _factor(norm, True)
    if len(dims) > 1:
        z = aten._fft_c2c(z, dims[:-1], factor, True)
    return aten._fft_c2r(z.conj(), dims[-1:], factor, last)


def ihfftn(x: Tensor, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    x = _floating(x)
    dims, sizes = _axes(x, s, dim)
    factor = _factor(norm, False)
    z = aten._fft_r2c(_resized(x, dims, sizes), dims[-1:], factor, True).conj()
    return aten._fft_c2c(z, dims[:-1], factor, False) if len(dims) > 1 else z


def _along_one(transform: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def along(x: Tensor, n: Any = None, dim: int = -1, norm: str | None = None) -> Tensor:
        return transform(x, None if n is None else [n], [dim], norm)

    return along


def _along_two(transform: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def along(x: Tensor, s: Sizes = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Tensor:
        return transform(x, s, dim, norm)

    return along


TRANSFORMS: Mapping[str, Callable[..., Tensor]] = {
    "fft": _transform(True),
    "ifft": _transform(False),
    "rfft": rfftn,
    "irfft": irfftn,
    "hfft": hfftn,
    "ihfft": ihfftn,
}

RULES: Mapping[str, Callable[..., Any]] = {
    **{f"aten.fft_{name}.default": _along_one(transform) for name, transform in TRANSFORMS.items()},
    **{f"aten.fft_{name}2.default": _along_two(transform) for name, transform in TRANSFORMS.items()},
    **{f"aten.fft_{name}n.default": transform for name, transform in TRANSFORMS.items()},
}
