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


class SpectralConvolution(nn.Module):
    """The lowest frequencies of each of the last axes by a complex weight of their own, as Li et al. write it."""

    def __init__(self, channels: int, modes: int, axes: int) -> None:
        super().__init__()
        self.modes, self.axes = modes, axes
        sizes = (channels, channels, *[modes] * axes)
        self.weights = nn.ParameterList(
            torch.rand(sizes, dtype=torch.cfloat) / channels**2 for _ in range(2 ** (axes - 1))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, m = x.shape[0], x.shape[1], self.modes
        if self.axes == 1:
            x_ft = torch.fft.rfft(x)
            out_ft = torch.zeros(batch, channels, x.size(-1) // 2 + 1, device=x.device, dtype=torch.cfloat)
            out_ft[:, :, :m] = torch.einsum("bix,iox->box", x_ft[:, :, :m], self.weights[0])
            return torch.fft.irfft(out_ft, n=x.size(-1))
        x_ft = torch.fft.rfft2(x)
        out_ft = torch.zeros(batch, channels, x.size(-2), x.size(-1) // 2 + 1, dtype=torch.cfloat, device=x.device)
        out_ft[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", x_ft[:, :, :m, :m], self.weights[0])
        out_ft[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", x_ft[:, :, -m:, :m], self.weights[1])
        return torch.fft.irfft2(out_ft, s=(x.size(-2), x.size(-1)))


class FourierOperator(nn.Module):
    """A Fourier neural operator (arXiv:2010.08895) of one or two axes: places as channels, layers, a projection."""

    def __init__(self, axes: int) -> None:
        super().__init__()
        self.lift, self.project = nn.Linear(1 + axes, 4), nn.Linear(4, 1)
        self.spectral = nn.ModuleList(SpectralConvolution(4, 3, axes) for _ in range(2))
        convolution = nn.Conv1d if axes == 1 else nn.Conv2d
        self.local = nn.ModuleList(convolution(4, 4, 1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, *sizes, _ = x.shape
        places = torch.meshgrid(*(torch.linspace(0, 1, size) for size in sizes), indexing="ij")
        grid = torch.stack(places, -1).repeat(batch, *[1] * len(sizes), 1)
        x = self.lift(torch.cat((x, grid), dim=-1)).movedim(-1, 1)
        for spectral, local in zip(self.spectral, self.local, strict=True):
            x = nn.functional.gelu(spectral(x) + local(x))
        return self.project(x.movedim(1, -1))


def fourier_operator_of_lines() -> Example:
    return Example(FourierOperator(1).eval(), (torch.randn(1, 16, 1),), {}, ({0: "batch", 1: "points"},))


def fourier_operator_of_planes() -> Example:
    sizes = {0: "batch", 1: "rows", 2: "columns"}
    return Example(FourierOperator(2).eval(), (torch.randn(2, 12, 15, 1),), {}, (sizes,))


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


CASES = tuple(
    ModelCase(build.__name__, build)
    for build in (
        rotary,
        spectrogram,
        fourier_layer,
        fourier_operator_of_lines,
        fourier_operator_of_planes,
        linear_recurrence,
    )
)
