"""Functions that make tensors of so many elements, where PyTorch makes a number of the size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import SymInt, Tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from fxport.fx_passes.decompositions import windows


def _window(shape: Callable[..., Tensor]) -> Callable[..., Any]:
    """Make a function such as `hann_window` of its shape: of how far in the period each place is, from 0 to 1."""

    def window(window_length: Any, periodic: bool = True, *parameters: Any, **options: Any) -> Any:
        named = {name: options.pop(name) for name in ("alpha", "beta") if name in options}
        dtype = options.get("dtype") or torch.get_default_dtype()
        is_plain = options.get("layout") in (None, torch.strided) and not options.get("requires_grad")
        if not isinstance(window_length, SymInt) or not is_plain or not dtype.is_floating_point:
            return NotImplemented
        length: Any = window_length  # the stubs know no symbolic sizes
        places = torch.arange(length, dtype=dtype, device=options.get("device"))
        found = shape(places / (length if periodic else torch.sym_max(length - 1, 1)), *parameters, **named)
        alone = 1 - torch.sym_min(length - 1, 1)  # a window of one element is 1
        return found + (1 - found) * alone

    return window


def _hann(turns: Tensor) -> Tensor:
    return windows.hamming(turns, 0.5, 0.5)


def _frequencies(values: Callable[..., Tensor]) -> Callable[..., Any]:
    """Make `fftfreq` or `rfftfreq`, which compute what they do of a number."""

    def frequencies(n: Any, d: float = 1.0, *, dtype: Any = None, device: Any = None, **rest: Any) -> Any:
        return (
            NotImplemented
            if not isinstance(n, SymInt) or any(rest.values())
            else values(n, d, dtype=dtype, device=device)
        )

    return frequencies


def _vander(x: Tensor, N: Any = None, increasing: bool = False) -> Any:
    """Compute powers of a vector by products from column to column."""
    if x.dim() != 1 or not (isinstance(N, SymInt) or isinstance(x.shape[0], SymInt)):
        return NotImplemented
    columns: Any = x.shape[0] if N is None else N  # the stubs know no symbolic sizes
    powers = torch.arange(columns, device=x.device) > 0
    found = torch.where(powers, x[:, None], torch.ones_like(x[:, None])).cumprod(1)
    return found if increasing else found.flip(1)


def _combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Any:
    """Select the places at which the indices rise."""
    if r < 2 or input.dim() != 1 or not isinstance(input.shape[0], SymInt):
        return NotImplemented
    places = torch.arange(input.shape[0], device=input.device)
    grids = torch.meshgrid([places] * r, indexing="ij")
    rises = [a <= b if with_replacement else a < b for a, b in pairwise(grids)]
    rows = torch.stack(rises).all(0).nonzero()
    return input[rows]


def _arange(start: Any = 0, end: Any = None, step: Any = 1, **options: Any) -> Any:
    """Count whole numbers by a step that only data tell, in the direction of which the end lies."""
    numbers = (start, end, step)
    whole = all(type(each) is int or isinstance(each, SymInt) for each in numbers)
    if not whole or not isinstance(step, SymInt) or not free_unbacked_symbols(step) or options.get("out") is not None:
        return NotImplemented
    count: Any = -((start - end) // step)  # the stubs know no symbolic sizes
    torch._check(count >= 0)
    dtype, rest = options.pop("dtype", None) or torch.int64, {"device": options.get("device")}
    return (start + step * torch.arange(count, **rest)).to(dtype)


REWRITES: Mapping[Any, Callable[..., Any]] = {
    torch.hann_window: _window(_hann),
    torch.hamming_window: _window(windows.hamming),
    torch.blackman_window: _window(windows.blackman),
    torch.bartlett_window: _window(windows.bartlett),
    torch.kaiser_window: _window(windows.kaiser),
    torch.fft.fftfreq: _frequencies(windows.fftfreq),
    torch.fft.rfftfreq: _frequencies(windows.rfftfreq),
    torch.arange: _arange,
    torch.vander: _vander,
    torch.combinations: _combinations,
}
"""Each answers NotImplemented where PyTorch's own function serves."""
