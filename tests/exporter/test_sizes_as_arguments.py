"""Functions that take a size of an input as an argument: so many elements, windows and transforms so long, steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fxport import ExportError, export
from fxport.diagnostics import Level, Log
from tests.running import assert_same, run_exported

Rows = Mapping[str, Callable[[Tensor, Any], Tensor]]

FACTORIES: Rows = {
    "hann_window": lambda x, n: torch.hann_window(n),
    "hann_window to the last": lambda x, n: torch.hann_window(n, periodic=False),
    "hamming_window": lambda x, n: torch.hamming_window(n, False, 0.5, beta=0.3),
    "blackman_window": lambda x, n: torch.blackman_window(n, dtype=torch.float64),
    "bartlett_window": lambda x, n: torch.bartlett_window(n),
    "kaiser_window": lambda x, n: torch.kaiser_window(n, False, beta=5.0),
    "fftfreq": lambda x, n: torch.fft.fftfreq(n),
    "rfftfreq": lambda x, n: torch.fft.rfftfreq(n, d=0.5),
    "vander": lambda x, n: torch.vander(x[:, 0], increasing=True),
    "vander of integers": lambda x, n: torch.vander(torch.arange(3), N=n),
    "one_hot": lambda x, n: F.one_hot(torch.arange(4) * 0, n),
    "combinations": lambda x, n: torch.combinations(x[:, 0]),
    "combinations with replacement": lambda x, n: torch.combinations(x[:, 0], 3, with_replacement=True),
}
"""Functions that make something of so many elements."""

WINDOWS: Rows = {
    "as long as a line": lambda x, n: F.max_pool1d(x.T[None], n),
    "as large as a picture": lambda x, n: F.avg_pool2d(x.reshape(1, 2, n, 2), x.reshape(1, 2, n, 2).shape[2:]),
    "as large as a picture, the largest": lambda x, n: F.max_pool2d(x.reshape(1, 2, n, 2), (n, 2)),
    "half as long": lambda x, n: F.avg_pool1d(x.T[None], n // 2),
    "half as long, the largest": lambda x, n: F.max_pool1d(x.T[None], n // 2, stride=2),
    "unfold": lambda x, n: x.unfold(0, n // 2, 1),
    "unfold by steps": lambda x, n: x.unfold(0, 2, n + 1),
    "adaptive": lambda x, n: F.adaptive_avg_pool1d(x.T[None], n // 2),
}
"""Functions over windows as long as a size says."""

TRANSFORMS: Rows = {
    "of 6 places": lambda x, n: torch.fft.rfft(x, n=6, dim=0).abs(),
    "of so many places": lambda x, n: torch.fft.fft(x, n=n, norm="ortho").real,
    "of so many places on the last axis": lambda x, n: torch.fft.hfft(x[:, :2] + 1j * x[:, 2:], n).sum(),
    "back to 9 places": lambda x, n: torch.fft.irfft(torch.complex(x, -x), 9, 0),
    "of two axes": lambda x, n: torch.fft.rfft2(x, s=(6, 5), norm="forward").imag,
    "of two axes, one of which keeps its size": lambda x, n: torch.fft.irfft2(torch.complex(x, x), s=(5, -1)),
    "back from two axes, one of which keeps its size": lambda x, n: torch.fft.irfft2(torch.complex(x, x), s=(-1, 9)),
    "of the last axes": lambda x, n: torch.fft.ifftn(x.T, s=[6]).imag,
    "a product of spectra": lambda x, n: torch.fft.irfft(torch.fft.rfft(x, 12, 0) * torch.fft.rfft(x, 12, 0), 12, 0),
}
"""Fourier transforms of a length that cuts a line at some sizes and pads it at others."""

NAMED: Rows = {
    "mean by axis": lambda x, n: x.mean(axis=1, keepdims=True),  # type: ignore[call-overload]  # the stubs know no names of NumPy
    "mean of a named input": lambda x, n: torch.mean(input=x, dim=0),
    "take_along_dim": lambda x, n: torch.take_along_dim(input=x, indices=x.argmax(1, keepdim=True), dim=1),
}
"""Arguments by the names that PyTorch and NumPy give them."""


class Calls(nn.Module):
    def __init__(self, rows: Rows) -> None:
        super().__init__()
        self.rows = list(rows.values())

    def forward(self, x: Tensor) -> list[Tensor]:
        return [row(x, x.shape[0]) for row in self.rows]


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [(FACTORIES, (7, 10, 2, 1)), (WINDOWS, (7, 10, 4)), (TRANSFORMS, (7, 10, 6, 5, 2, 1, 13)), (NAMED, (7, 10, 2, 1))],
    ids=("made", "windows", "transforms", "named"),
)
def test_a_size_as_an_argument_stays_dynamic(rows: Rows, sizes: tuple[int, ...]) -> None:
    model, log = Calls(rows), Log()
    calls = [(torch.randn(size, 4),) for size in sizes]
    for call, results in zip(calls, run_exported(model, calls, dynamic_shapes={"x": {0: "n"}}, log=log), strict=True):
        for name, result, expected in zip(rows, results, model(*call), strict=True):
            try:
                assert_same([result], [expected])
            except AssertionError as error:
                raise AssertionError(f"{name} at {len(call[0])}") from error
    assert all(finding.level is Level.NOTE for finding in log.findings)


def test_windows_that_reach_out_are_refused_as_a_constant_size() -> None:
    class Padded(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.avg_pool1d(x, x.shape[-1], padding=2)

    with pytest.raises(ExportError, match="FXP2001"):
        export(Padded(), (torch.randn(1, 2, 7),), dynamic_shapes=({2: "n"},))
