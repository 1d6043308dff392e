"""Settings of PyTorch that a size turns on or off: `torch.autocast("cpu", enabled=x.shape[0] > 3)`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest import mock

import torch
from torch import SymBool


@contextmanager
def switches_by_sizes() -> Iterator[None]:
    """Ask for the truth of what is given to a setting, as Python does of a condition: a graph has one setting."""
    with (
        mock.patch.object(torch.autocast, "__init__", _asking(torch.autocast.__init__)),
        mock.patch.object(torch.set_grad_enabled, "__init__", _asking(torch.set_grad_enabled.__init__)),
        mock.patch.object(torch.inference_mode, "__new__", _asking(torch.inference_mode.__new__)),
        mock.patch.object(torch.inference_mode, "__init__", _asking(torch.inference_mode.__init__)),
    ):
        yield


def _asking(found: Any) -> Any:
    """Return the method with plain truth values."""

    @wraps(found)
    def method(*args: Any, **kwargs: Any) -> Any:
        named = {name: _plain(value) for name, value in kwargs.items()}
        return found(*map(_plain, args), **named)

    return method


def _plain(value: Any) -> Any:
    return bool(value) if isinstance(value, SymBool) else value
