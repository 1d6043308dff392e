"""An export inside of `torch.autocast`: the model is what it is there, so the region becomes a part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from fxport.exporter.capture.forward import forward_by

DEVICES = ("cpu", "cuda")
"""Devices that have a setting of their own."""


@contextmanager
def autocast_inside(model: Any) -> Iterator[None]:
    """Make `forward` enter the autocast regions that the caller is in, and leave these, while a model is exported.

    A trace sees the ops as they are written, and what autocast makes of each only inside of a region that it keeps.
    """
    found = {device: torch.get_autocast_dtype(device) for device in DEVICES if torch.is_autocast_enabled(device)}

    def call(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with ExitStack() as inside:
            for device, dtype in found.items():
                inside.enter_context(torch.autocast(device, dtype))
            return forward(*args, **kwargs)

    with ExitStack() as outside:
        if found and isinstance(model, torch.nn.Module):
            outside.enter_context(forward_by(model, call))
        for device in found:
            outside.enter_context(torch.autocast(device, enabled=False))
        yield
