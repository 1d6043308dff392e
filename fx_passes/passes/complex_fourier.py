"""Rows of `complex_to_real`: Fourier transforms, as the ops of `fxport.fx_passes.fourier`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from fxport.fx_passes import fourier  # noqa: F401  # registers the ops
from fxport.fx_passes.passes.complex_arithmetic import Row
from fxport.fx_passes.passes.complex_axes import packed
from fxport.fx_passes.passes.complex_values import Complex, NoRealForm, Packed, as_tensors

aten = torch.ops.aten
fxport = torch.ops.fxport


def _r2c(x: torch.Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Packed:
    return Packed(fxport.fft_r2c.default(x, _axes(dim, x.dim()), normalization, onesided))


def _c2c(x: Any, dim: Sequence[int], normalization: int, forward: bool) -> Packed:
    z = packed(x)
    return Packed(fxport.fft_c2c.default(z, _axes(dim, z.dim() - 1), normalization, forward))


def _c2r(x: Any, dim: Sequence[int], normalization: int, last_dim_size: Any) -> torch.Tensor:
    z = packed(x)
    return fxport.fft_c2r.default(z, _axes(dim, z.dim() - 1), normalization, last_dim_size)


def _stft(
    x: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """Overlapping frames, times the window, transformed: [..., frequencies, frames]."""
    if align_to_window:
        raise NoRealForm("align_to_window is not supported")
    frames = _framed(Complex.of(x), n_fft, hop_length or n_fft // 4)
    frames = frames * Complex.of(_padded(window, win_length or n_fft, n_fft, frames))
    half = frames.is_real if onesided is None else onesided
    axes = [as_tensors(frames)[0].dim() - 1]
    if frames.is_real:
        spectra = fxport.fft_r2c.default(frames.re, axes, int(normalized), half)
    else:
        spectra = fxport.fft_c2c.default(torch.stack(as_tensors(frames), -1), axes, int(normalized), True)
        spectra = spectra.narrow(-2, 0, n_fft // 2 + 1) if half else spectra
    result = spectra.transpose(-3, -2)
    return Packed(result) if return_complex else result


def _framed(x: Complex, size: int, step: int) -> Complex:
    re = x.re.unfold(-1, size, step)  # type: ignore[union-attr]  # a tensor, since it is the op's first operand
    return Complex(re, x.im if x.is_real else x.im.unfold(-1, size, step))  # type: ignore[union-attr]


def _padded(window: Any, length: int, size: int, like: Complex) -> Any:
    """The window in the middle of a frame, with zeros around it; one of ones where none is given."""
    left = (size - length) // 2
    if window is None:
        if length == size:
            return 1.0
        window = torch.ones(length, dtype=as_tensors(like)[0].dtype)
    if length == size:
        return window
    parts = Complex.of(window)
    edges = [left, size - length - left]
    padded = (
        part if isinstance(part, float) else aten.constant_pad_nd.default(part, edges) for part in (parts.re, parts.im)
    )
    return Complex(*padded)


def _axes(dim: Sequence[int], rank: int) -> list[int]:
    return [each % rank for each in dim]


ROWS: Mapping[Any, Row] = {
    aten._fft_r2c.default: _r2c,
    aten._fft_c2c.default: _c2c,
    aten._fft_c2r.default: _c2r,
    aten.stft.default: _stft,
}
