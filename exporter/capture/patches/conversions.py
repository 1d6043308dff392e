"""`module.to(dtype)` inside of forward, where it changes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import nn


@contextmanager
def needless_conversions_skipped() -> Iterator[None]:
    """Return a module as it is from `to`, if it has the dtype and the device already.

    PyTorch would exchange each weight for its equal, which it refuses to do with fake tensors.
    """
    original = nn.Module.to

    def to(self: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
        return self if _is_so(self, *args, **kwargs) else original(self, *args, **kwargs)

    with mock.patch.object(nn.Module, "to", to):
        yield


def _is_so(module: nn.Module, *args: Any, **kwargs: Any) -> bool:
    device, dtype, _, memory_format = torch._C._nn._parse_to(*args, **kwargs)  # type: ignore[attr-defined]  # made in C++
    if memory_format is not None:
        return False
    return all(
        (device is None or tensor.device == device)
        and (dtype is None or tensor.dtype == dtype or not (tensor.is_floating_point() or tensor.is_complex()))
        for tensor in itertools.chain(module.parameters(), module.buffers())
    )
