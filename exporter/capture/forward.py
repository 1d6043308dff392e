"""Modules whose `forward` is replaced for a while."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch


@contextmanager
def replaced_forward(module: torch.nn.Module, forward: Callable[..., object]) -> Iterator[None]:
    """Make calls of the module run `forward`; afterwards it is as it was, also one of an instance of its own."""
    held = vars(module).get("forward")
    module.forward = forward
    try:
        yield
    finally:
        if held is None:
            del module.forward
        else:
            module.forward = held


def forward_by(module: torch.nn.Module, call: Callable[..., Any]) -> AbstractContextManager[None]:
    """Make calls of the module run `call(forward, *args, **kwargs)`; a module of TorchScript is left as it is."""
    if isinstance(module, torch.jit.ScriptModule):
        return nullcontext()
    inner = module.forward

    @functools.wraps(inner)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return call(inner, *args, **kwargs)

    return replaced_forward(module, forward)
