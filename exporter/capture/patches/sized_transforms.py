"""Fourier transforms of a length that cuts an axis at some sizes and pads it at others: PyTorch asks which.

The axis is cut and padded before the transform, one of both by nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import SymInt, Tensor
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from fxport.fx_passes.sizes import size_of


def _along_one(call: Callable[..., Tensor], halved: bool = False) -> Callable[..., Any]:
    """Make a transform along one axis; `halved` is one that reads half of a spectrum of `n` places."""

    def transform(input: Tensor, n: Any = None, dim: int = -1, norm: str | None = None, *, out: None = None) -> Any:
        wanted = [n // 2 + 1 if halved else n] if n is not None else []
        if out is not None or not _is_open(input, wanted, [dim]):
            return NotImplemented
        return call(_resized(input, wanted, [dim]), n, dim, norm)

    return transform


def _along_several(
    call: Callable[..., Tensor], halved: bool = False, axes: Sequence[int] | None = None
) -> Callable[..., Any]:
    """Make a transform along `axes`, or along the last of them; the last of a `halved` one is half of a spectrum."""

    def transform(input: Tensor, s: Any = None, dim: Any = axes, norm: str | None = None, *, out: None = None) -> Any:
        sizes = [] if s is None else [*s] if isinstance(s, (tuple, list)) else [s]
        along = [*range(-len(sizes), 0)] if dim is None else [*dim] if isinstance(dim, (tuple, list)) else [dim]
        if out is not None or len(along) != len(sizes):
            return NotImplemented
        wanted = [*sizes[:-1], sizes[-1] // 2 + 1] if halved else sizes  # -1 keeps an axis, and is below its size
        if not _is_open(input, wanted, along):
            return NotImplemented
        return call(_resized(input, wanted, along), sizes, along, norm)

    return transform


def _is_open(x: Tensor, sizes: Sequence[Any], axes: Sequence[int]) -> bool:
    """Return whether an axis is longer than its new size at some sizes of the inputs, and shorter at others."""
    return any(_is_undecided(x.shape[axis], n) for axis, n in zip(axes, sizes, strict=False))


def _is_undecided(size: Any, n: Any) -> bool:
    """Return whether neither of two sizes is always the smaller one, also where inputs have sizes of 1."""
    if not isinstance(size, SymInt) and not isinstance(n, SymInt):
        return False
    env = next(each.node.shape_env for each in (size, n) if isinstance(each, SymInt))
    further = sympy.sympify(size_of(n)) - sympy.sympify(size_of(size))
    bounds = {each: env.var_to_range.get(each, ValueRanges.unknown_int()) for each in further.free_symbols}
    found = bound_sympy(further, {each: ValueRanges(min(1, has.lower), has.upper) for each, has in bounds.items()})
    return bool(found.lower < 0) and bool(found.upper > 0)


def _resized(x: Tensor, sizes: Sequence[Any], axes: Sequence[int]) -> Tensor:
    """Cut or pad axes to new sizes at their ends."""
    for axis, n in zip(axes, sizes, strict=True):
        if _is_undecided(x.shape[axis], n):
            kept: Any = torch.sym_min(x.shape[axis], n)  # the stubs know no symbolic sizes
            further = [*x.shape]
            further[axis] = n - kept
            x = torch.cat([x.narrow(axis, 0, kept), x.new_zeros(further)], axis)
    return x


_fft = torch.fft

REWRITES: Mapping[Any, Callable[..., Any]] = {
    **{call: _along_one(call) for call in (_fft.fft, _fft.ifft, _fft.rfft, _fft.ihfft)},
    **{call: _along_one(call, halved=True) for call in (_fft.irfft, _fft.hfft)},
    **{call: _along_several(call, axes=(-2, -1)) for call in (_fft.fft2, _fft.ifft2, _fft.rfft2, _fft.ihfft2)},
    **{call: _along_several(call, halved=True, axes=(-2, -1)) for call in (_fft.irfft2, _fft.hfft2)},
    **{call: _along_several(call) for call in (_fft.fftn, _fft.ifftn, _fft.rfftn, _fft.ihfftn)},
    **{call: _along_several(call, halved=True) for call in (_fft.irfftn, _fft.hfftn)},
}
"""Each answers NotImplemented where PyTorch's own function serves."""
