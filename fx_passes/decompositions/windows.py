"""Tensors made of numbers alone: window functions, frequencies, ranges. Formulas as in PyTorch's documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import floor, pi
from typing import Any

import torch
from torch import Tensor


def _steps(length: int, periodic: bool, dtype: torch.dtype, **storage: Any) -> tuple[Tensor, int]:
    """0, 1, … and the number of steps in a whole period, at least 1."""
    return torch.arange(length, dtype=dtype, **storage), max(length if periodic else length - 1, 1)


def _window(shape: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The op of a shape: `shape(turns, *parameters)` of how far in the period each place is, from 0 to 1."""

    def window(
        window_length: int, periodic: bool = True, *parameters: float, dtype: torch.dtype | None = None, **storage: Any
    ) -> Tensor:
        dtype = dtype or torch.get_default_dtype()
        if window_length == 1:
            return torch.ones(1, dtype=dtype, **storage)
        places, period = _steps(window_length, periodic, dtype, **storage)
        return shape(places / period, *parameters)

    return window


def hamming(turns: Tensor, alpha: float = 0.54, beta: float = 0.46) -> Tensor:
    return alpha - beta * torch.cos(turns * (2 * pi))


def bartlett(turns: Tensor) -> Tensor:
    return 1 - (2 * turns - 1).abs()


def blackman(turns: Tensor) -> Tensor:
    return 0.42 - 0.5 * torch.cos(turns * (2 * pi)) + 0.08 * torch.cos(turns * (4 * pi))


def kaiser(turns: Tensor, beta: float = 12.0) -> Tensor:
    width = turns.new_full((), beta)
    return torch.i0(beta * torch.sqrt((1 - (2 * turns - 1) ** 2).clamp_min(0.0))) / torch.i0(width)


def fftfreq(n: Any, d: float = 1.0, *, dtype: torch.dtype | None = None, **storage: Any) -> Tensor:
    places = torch.arange(n, dtype=dtype or torch.get_default_dtype(), **storage)
    return torch.where(places > (n - 1) // 2, places - n, places) * (1.0 / (n * d))


def rfftfreq(n: Any, d: float = 1.0, *, dtype: torch.dtype | None = None, **storage: Any) -> Tensor:
    return torch.arange(n // 2 + 1, dtype=dtype or torch.get_default_dtype(), **storage) * (1.0 / (n * d))


def range_(start: float, end: float, step: float = 1, *, dtype: torch.dtype | None = None, **storage: Any) -> Tensor:
    """`range` holds its end as well."""
    count = floor((end - start) / step) + 1
    return torch.arange(count, dtype=dtype or torch.get_default_dtype(), **storage) * step + start


RULES: Mapping[str, Callable[..., Any]] = {
    **{f"aten.hamming_window.{name}": _window(hamming) for name in ("default", "periodic", "periodic_alpha")},
    "aten.hamming_window.periodic_alpha_beta": _window(hamming),
    **{f"aten.bartlett_window.{name}": _window(bartlett) for name in ("default", "periodic")},
    **{f"aten.blackman_window.{name}": _window(blackman) for name in ("default", "periodic")},
    **{f"aten.kaiser_window.{name}": _window(kaiser) for name in ("default", "periodic", "beta")},
    "aten.fft_fftfreq.default": fftfreq,
    "aten.fft_rfftfreq.default": rfftfreq,
    **{f"aten.range.{name}": range_ for name in ("default", "step")},
}
