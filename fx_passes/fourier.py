"""Fourier transforms of real tensors whose last axis of 2 holds complex numbers: ops of our own.

They stand in a graph between `complex_to_real` and lowering, and compute in eager PyTorch what ATen's ops compute.
`dim` counts the axes without the last one; `normalization` is ATen's: 0 none, 1 by the root of the size, 2 by the size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


@torch.library.custom_op("fxport::fft_r2c", mutates_args=())
def fft_r2c(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Tensor:
    """The transform of real numbers; `onesided` keeps the first half of the last of `dim`."""
    return _unpacked(aten._fft_r2c.default(x, dim, normalization, onesided))


@torch.library.custom_op("fxport::fft_c2c", mutates_args=())
def fft_c2c(x: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Tensor:
    """The transform of complex numbers, or its inverse."""
    return _unpacked(aten._fft_c2c.default(torch.view_as_complex(x.contiguous()), dim, normalization, forward))


@torch.library.custom_op("fxport::fft_c2r", mutates_args=())
def fft_c2r(x: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    """The inverse transform of the first half of a spectrum that belongs to real numbers."""
    return aten._fft_c2r.default(torch.view_as_complex(x.contiguous()), dim, normalization, last_dim_size)


def _unpacked(z: Tensor) -> Tensor:
    return torch.view_as_real(z).contiguous()


@fft_r2c.register_fake
def _(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Tensor:
    sizes: list[Any] = list(x.shape)
    if onesided:
        sizes[dim[-1]] = sizes[dim[-1]] // 2 + 1
    return x.new_empty((*sizes, 2))


@fft_c2c.register_fake
def _(x: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Tensor:
    return torch.empty_like(x)


@fft_c2r.register_fake
def _(x: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    sizes: list[Any] = list(x.shape[:-1])
    sizes[dim[-1]] = last_dim_size
    return x.new_empty(sizes)
