"""Functions that make tensors of so many elements, where PyTorch makes a number of the size: windows and frequencies.

They compute what PyTorch's do in the same steps, so that the values are the same to the last bit or nearly so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import SymInt, Tensor
from torch.nn import functional


def _window(values: Callable[..., Tensor]) -> Callable[..., Any]:
    """Make a function such as `hann_window`.

    Args:
        values: Takes 0, 1, 2 …, the number of the last element, and what the window has beside its length.
    """

    def window(window_length: Any, periodic: bool = True, *args: Any, **options: Any) -> Any:
        named = {name: options.pop(name) for name in ("alpha", "beta") if name in options}
        dtype = options.get("dtype") or torch.get_default_dtype()
        is_plain = options.get("layout") in (None, torch.strided) and not options.get("requires_grad")
        if not isinstance(window_length, SymInt) or not is_plain or not dtype.is_floating_point:
            return NotImplemented
        length: Any = window_length  # the stubs know no symbolic sizes
        last = length if periodic else torch.sym_max(length - 1, 1)
        found = values(torch.arange(length, dtype=dtype, device=options.get("device")), last, *args, **named)
        alone = 1 - torch.sym_min(length - 1, 1)  # a window of one element is 1
        return found + (1 - found) * alone

    return window


def _hann(x: Tensor, last: Any) -> Tensor:
    return _hamming(x, last, 0.5, 0.5)


def _hamming(x: Tensor, last: Any, alpha: float = 0.54, beta: float = 0.46) -> Tensor:
    return (x * (2 * math.pi / last)).cos() * -beta + alpha


def _blackman(x: Tensor, last: Any) -> Tensor:
    x = x * (math.pi / last)
    return (x * 4).cos() * 0.08 - (x * 2).cos() * 0.5 + 0.42


def _bartlett(x: Tensor, last: Any) -> Tensor:
    rising = x * (2 / last)
    return torch.minimum(rising, 2 - rising)


def _kaiser(x: Tensor, last: Any, beta: float = 12.0) -> Tensor:
    place = x * (2 / last) - 1
    return torch.special.i0(beta * (1 - place * place).clamp(min=0).sqrt()) / torch.special.i0(x.new_tensor(beta))


def _frequencies(n: Any, d: float = 1.0, *, dtype: Any = None, device: Any = None, **rest: Any) -> Any:
    """Compute `fftfreq`: 0, 1, … and then the negative ones, in cycles per unit of `d`."""
    if not isinstance(n, SymInt) or any(rest.values()):
        return NotImplemented
    size: Any = n  # the stubs know no symbolic sizes
    dtype = dtype or torch.get_default_dtype()
    parts = [
        torch.arange(low, high, dtype=dtype, device=device) for low, high in ((0, (size + 1) // 2), (-(size // 2), 0))
    ]
    return torch.cat(parts) * (1.0 / (size * d))


def _half_frequencies(n: Any, d: float = 1.0, *, dtype: Any = None, device: Any = None, **rest: Any) -> Any:
    """Compute `rfftfreq`: the frequencies that are not negative."""
    if not isinstance(n, SymInt) or any(rest.values()):
        return NotImplemented
    size: Any = n  # the stubs know no symbolic sizes
    return torch.arange(size // 2 + 1, dtype=dtype or torch.get_default_dtype(), device=device) * (1.0 / (size * d))


def _vander(x: Tensor, N: Any = None, increasing: bool = False) -> Any:
    """Compute powers of a vector by products from column to column."""
    columns: Any = x.shape[0] if N is None else N
    if x.dim() != 1 or not (isinstance(columns, SymInt) or isinstance(x.shape[0], SymInt)):
        return NotImplemented
    powers = torch.arange(columns, device=x.device) > 0
    found = torch.where(powers, x[:, None], torch.ones_like(x[:, None])).cumprod(1)
    return found if increasing else found.flip(1)


def _one_hot(tensor: Tensor, num_classes: Any = -1) -> Any:
    """Compare with each class; PyTorch's check that no class is beyond the last is one of data."""
    if not isinstance(num_classes, SymInt):
        return NotImplemented
    count: Any = num_classes
    return (tensor.unsqueeze(-1) == torch.arange(count, device=tensor.device)).long()


def _combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Any:
    """Select the places at which the indices rise."""
    if r < 2 or input.dim() != 1 or not isinstance(input.shape[0], SymInt):
        return NotImplemented
    places = torch.arange(input.shape[0], device=input.device)
    grids = torch.meshgrid([places] * r, indexing="ij")
    rises = [a <= b if with_replacement else a < b for a, b in pairwise(grids)]
    rows = torch.stack(rises).all(0).nonzero()
    return input[rows]


REWRITES: Mapping[Any, Callable[..., Any]] = {
    torch.hann_window: _window(_hann),
    torch.hamming_window: _window(_hamming),
    torch.blackman_window: _window(_blackman),
    torch.bartlett_window: _window(_bartlett),
    torch.kaiser_window: _window(_kaiser),
    torch.fft.fftfreq: _frequencies,
    torch.fft.rfftfreq: _half_frequencies,
    torch.vander: _vander,
    functional.one_hot: _one_hot,
    torch.combinations: _combinations,
}
"""Each answers NotImplemented where PyTorch's own function serves."""
