"""Models that compute with complex numbers: rotary positions as Llama first had them, spectra, a Fourier layer."""

from __future__ import annotations

import torch
from torch import nn

from tests.cases.models import Example, ModelCase


class Rotary(nn.Module):
    """Attention whose queries and keys are turned by `torch.polar`, from positions that are as many as tokens."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width, bias=False)
        size = width // heads
        self.register_buffer("frequencies", 1.0 / 10000 ** (torch.arange(0, size, 2) / size), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angles = torch.outer(torch.arange(x.shape[1]), self.frequencies)
        turns = torch.polar(torch.ones_like(angles), angles)
        query, key, value = self.project(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key = (_turned(each, turns) for each in (query, key))
        y = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return y.transpose(1, 2).flatten(2)


def _turned(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(3).type_as(x)


def rotary() -> Example:
    return Example(Rotary().eval(), (torch.randn(2, 5, 16),), {}, ({0: "batch", 1: "time"},))


class Spectrogram(nn.Module):
    """The logarithm of the power of a short-time Fourier transform, as speech models begin."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        window = torch.hann_window(40)
        spectrum = torch.stft(x, 40, 16, window=window, return_complex=True)
        return torch.log10(torch.clamp(spectrum[..., :-1].abs() ** 2, min=1e-10))


def spectrogram() -> Example:
    return Example(Spectrogram(), (torch.randn(2, 160),), {}, ({0: "batch", 1: "samples"},))


class FourierLayer(nn.Module):
    """Mixes the lowest frequencies of a signal with a complex weight, as Fourier neural operators do."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4, 5, dtype=torch.complex64) / 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft(x)
        low = torch.einsum("bif,iof->bof", spectrum[..., :5], self.weight)
        mixed = torch.zeros(x.shape[0], 4, spectrum.shape[-1], dtype=torch.complex64)
        mixed[..., :5] = low
        return torch.fft.irfft(mixed, n=x.shape[-1])


def fourier_layer() -> Example:
    return Example(FourierLayer().eval(), (torch.randn(2, 3, 24),), {}, ({0: "batch", 2: "points"},))


class LinearRecurrence(nn.Module):
    """A complex state over a dynamic number of steps, whose end is turned or mirrored as the data tells."""

    def __init__(self) -> None:
        super().__init__()
        self.rate, self.turn = nn.Parameter(torch.randn(5)), nn.Parameter(torch.rand(5))
        self.inward = nn.Parameter(torch.randn(4, 5, dtype=torch.complex64))

    def forward(self, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        decay = torch.exp(torch.complex(-self.rate.exp(), self.turn))
        state, found = torch.zeros(u.shape[0], 5, dtype=torch.complex64), []
        for t in range(u.shape[1]):
            state = decay * state + u[:, t].to(torch.complex64) @ self.inward
            found.append(state.real)
        state = state * 1j if u.sum() > 0 else state.conj()
        return torch.stack(found, 1), torch.view_as_real(state.resolve_conj())


def linear_recurrence() -> Example:
    return Example(LinearRecurrence().eval(), (torch.randn(2, 3, 4),), {}, ({0: "batch", 1: "time"},))


CASES = tuple(ModelCase(build.__name__, build) for build in (rotary, spectrogram, fourier_layer, linear_recurrence))
