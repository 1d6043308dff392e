"""Autocast that is turned on or off inside of a body of control flow, while PyTorch traces the body."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.fx.experimental.proxy_tensor import PreDispatchTorchFunctionMode

Setting = tuple[str, torch.dtype, bool]
"""Of a type of device: its name, the dtype that is cast to, and whether it is."""


@contextmanager
def autocast_followed() -> Iterator[None]:
    """Turn autocast on and off where a body does, whose two calls PyTorch only records.

    The dtypes of the trace would be those without, and a cast to one of them would be nothing.
    """
    found = PreDispatchTorchFunctionMode.__torch_function__
    before: dict[Any, Setting] = {}

    # Who asks about a size is told from the stack, where what is called so stands between the user's line and PyTorch.
    def __torch_function__(  # noqa: N807  # as it stands for one
        mode: Any, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = found(mode, function, types, args, kwargs)
        by_python = kwargs is None  # `with torch.autocast` itself, which sets and puts back what it says
        if function is _enter_autocast and not by_python:
            device, dtype, enabled, *_ = args
            before[result] = _setting(device)
            _set(device, dtype or torch.get_autocast_dtype(device), enabled)
        elif function is _exit_autocast and not by_python:
            _set(*before.pop(args[0]))
        return result

    try:
        with mock.patch.object(PreDispatchTorchFunctionMode, "__torch_function__", __torch_function__):
            yield
    finally:
        for setting in reversed(before.values()):  # of a trace that failed in between
            _set(*setting)


def _setting(device: str) -> Setting:
    return device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)


def _set(device: str, dtype: torch.dtype, enabled: bool) -> None:
    torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_enabled(device, enabled)
