"""Parts of a training step that tracing would change: hooks and activation checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch._C import _autograd  # type: ignore[attr-defined]  # made at run time
from torch.utils import checkpoint


@contextmanager
def saved_tensor_hooks_kept() -> Iterator[None]:
    """Run hooks on what is saved for backward while tracing too; PyTorch turns them off for the time of a trace."""
    before = _autograd._saved_tensors_hooks_set_tracing(False)
    try:
        yield
    finally:
        _autograd._saved_tensors_hooks_set_tracing(before)


@contextmanager
def checkpoints_kept_whole(model: torch.nn.Module) -> Iterator[Callable[[], None]]:
    """Make activation checkpointing of both kinds call its function once and keep what it computes.

    A graph has no memory to save by computing twice, and the runtime frees each value after its last use. The reentrant
    kind cannot be traced at all: its backward runs autograd inside of autograd. What is yielded runs again, after
    backward, the functions that write to buffers, as eager PyTorch does: batch norm counts such a batch twice.
    """
    writers: list[Callable[[], Any]] = []

    def versions() -> list[int]:
        return [buffer._version for buffer in model.buffers()]

    class Once:
        """Replacement of the autograd.Function of reentrant checkpointing."""

        @staticmethod
        def apply(function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
            before = versions()
            result = function(*args)
            if versions() != before:
                writers.append(partial(function, *args))
            return result

    def around(function: Callable[..., Any], *how: Any, **kwargs: Any) -> Iterator[None]:
        """Replacement of the generator that is run around the forward of checkpointing without reentry."""
        before = versions()
        yield
        if versions() != before:
            writers.append(partial(function, *how[_SETTINGS:], **kwargs))

    def again() -> None:
        with torch.no_grad():
            for each in writers:
                each()

    with (
        mock.patch.object(checkpoint, "CheckpointFunction", Once),
        mock.patch.object(checkpoint, "_checkpoint_without_reentrant_generator", around),
    ):
        yield again


_SETTINGS = 5
"""Arguments of PyTorch's generator between the function and the function's own."""
