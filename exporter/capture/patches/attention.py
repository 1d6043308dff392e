"""Attention while a model is captured: neither fused kernels nor questions about the values of a mask, plain flags."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest import mock

import torch
from torch import SymBool
from torch.nn import functional
from torch.nn.modules import transformer


@contextmanager
def no_fast_path() -> Iterator[None]:
    """Turn off the fast path of nn.Transformer, which gives 0 at padded positions, and which no capture takes."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


@contextmanager
def masks_unread() -> Iterator[None]:
    """Keep nn.TransformerEncoder and Decoder from looking whether the values of a mask make it a causal one.

    With the answer they choose a quicker kernel for the same result; without it the mask itself is applied. The
    question would make the path through the program depend on the mask's values, which ends the capture.
    """
    before = transformer._detect_is_causal_mask
    transformer._detect_is_causal_mask = _as_told
    try:
        with no_fast_path():
            yield
    finally:
        transformer._detect_is_causal_mask = before


def _as_told(mask: torch.Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Return whether the caller says that the mask is causal; the arguments are those of PyTorch's function."""
    return is_causal is True


@contextmanager
def flags_plain() -> Iterator[None]:
    """Give `scaled_dot_product_attention` the truth of `is_causal=x.shape[1] > 1`, for the sizes that it holds for.

    PyTorch refuses a symbolic one before any mode sees the call.
    """
    attention = functional.scaled_dot_product_attention

    @wraps(attention)
    def plain(*args: Any, **kwargs: Any) -> torch.Tensor:
        args = tuple(bool(each) if type(each) is SymBool else each for each in args)
        flags = {name: bool(each) for name, each in kwargs.items() if type(each) is SymBool}
        return attention(*args, **kwargs | flags)

    with mock.patch.object(functional, "scaled_dot_product_attention", plain):
        yield


def is_spread() -> bool:
    """Return whether context parallelism has replaced attention by a function of its own."""
    return torch.nn.functional.scaled_dot_product_attention.__module__.startswith("torch.distributed.")
