"""Rows for fx_passes/decompositions/transforms.py: axes kept, padded and cut, and back at the sizes of an input."""

from typing import Any

import torch
from torch import Tensor

from tests.cases.ops import Draw, OpCase, f

aten = torch.ops.aten

NORMS = {"norm": ("backward", "ortho", "forward")}


def z(*shape: int) -> Draw:
    return Draw(shape, torch.complex64)


def _back(x: Tensor, dim: Any = (-2, -1), norm: str = "backward") -> Tensor:
    return torch.fft.irfft2(torch.fft.rfft2(x, dim=dim, norm=norm), [x.shape[axis] for axis in dim], dim, norm)


def _all_back(x: Tensor, norm: str = "backward") -> Tensor:
    return torch.fft.irfftn(torch.fft.rfftn(x, norm=norm), s=x.shape, norm=norm)


def _line_back(x: Tensor, dim: int = -1) -> Tensor:
    return torch.fft.irfft(torch.fft.rfft(x, dim=dim), n=x.size(dim), dim=dim)


def _twice_as_long(x: Tensor) -> Tensor:
    """A product of spectra with room behind it, as long convolutions are computed."""
    n = 2 * x.shape[-1]
    return torch.fft.irfft(torch.fft.rfft(x, n=n) ** 2, n=n)[..., : x.shape[-1]]


def _mixed(x: Tensor) -> Tensor:
    return torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real


def _low_frequencies(x: Tensor, weight: Tensor) -> Tensor:
    """Both parts are written to: one ends where a size says, one is the last column."""
    y = torch.zeros(x.shape[0], 4, x.shape[2], dtype=x.dtype)
    y[:, :, :4] = torch.einsum("bix,iox->box", x[:, :, :4], weight)
    y[:, :, -1] = x[:, 0, :1]
    return y


CASES = (
    *(OpCase(op, f(3, 8), vary=NORMS) for op in (aten.fft_fft.default, aten.fft_ifft.default, aten.fft_rfft.default)),
    *(OpCase(op, f(3, 8), 12) for op in (aten.fft_fft.default, aten.fft_rfft.default, aten.fft_ihfft.default)),
    *(OpCase(op, z(3, 8), 5, 0) for op in (aten.fft_fft.default, aten.fft_ifft.default)),
    *(
        OpCase(op, z(3, 5), size, vary=NORMS, dtypes=(torch.complex64,))
        for op in (aten.fft_irfft.default, aten.fft_hfft.default)
        for size in (None, 7, 8, 12)
    ),
    OpCase(aten.fft_ihfft.default, f(3, 7), vary=NORMS, dynamic="n 7"),
    *(
        OpCase(op, z(2, 4, 5), sizes, [-1, 0], vary=NORMS, dtypes=(torch.complex64,))
        for op in (
            aten.fft_fft2.default,
            aten.fft_ifft2.default,
            aten.fft_irfft2.default,
            aten.fft_hfft2.default,
            aten.fft_fftn.default,
            aten.fft_ifftn.default,
            aten.fft_irfftn.default,
            aten.fft_hfftn.default,
        )
        for sizes in (None, [4, 3])
    ),
    *(
        OpCase(op, f(2, 4, 5), sizes, [-1, 0], vary=NORMS)
        for op in (
            aten.fft_rfft2.default,
            aten.fft_ihfft2.default,
            aten.fft_rfftn.default,
            aten.fft_ihfftn.default,
        )
        for sizes in (None, [4, 3], [-1, 2])
    ),
    OpCase(torch.fft.fftn, f(2, 4, 5), [3, 6]),
    OpCase(torch.fft.rfftn, f(2, 4, 5), dynamic="n 4 m"),
    OpCase(_back, f(2, 6, 8), vary=NORMS, dynamic="b h w"),
    OpCase(_back, f(2, 5, 7), dynamic="b h w"),
    OpCase(_back, f(5, 2, 8), dim=(-1, 0), dynamic="h b w"),
    OpCase(_all_back, f(3, 4, 5), vary=NORMS, dynamic="a b c"),
    OpCase(_line_back, f(2, 8), dynamic="b n"),
    OpCase(_line_back, f(7, 2), dim=0, dynamic="n b"),
    OpCase(_twice_as_long, f(2, 5), dynamic="b n"),
    OpCase(_low_frequencies, z(2, 3, 8), z(3, 4, 4), dtypes=(torch.complex64,), dynamic="b 3 n"),
    OpCase(_mixed, f(2, 6, 4), dynamic="b n 4"),
)
