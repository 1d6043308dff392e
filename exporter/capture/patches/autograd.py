"""Parts of a training step that tracing would change: hooks, checkpoints, dropout between recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch._C import _autograd  # type: ignore[attr-defined]  # made at run time
from torch._decomp import decompositions
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


@contextmanager
def dropout_between_layers_kept() -> Iterator[None]:
    """Let traced recurrent layers drop out between one another, as eager ones do.

    PyTorch's decomposition has `num_layers < i - 1` where it means `i < num_layers - 1`, and so never drops out.
    """
    original = decompositions._rnn_helper

    def layers(
        input: torch.Tensor,
        hidden: Sequence[Any],
        params: Sequence[Any],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
        layer_fn: Callable[..., Any],
    ) -> tuple[torch.Tensor, list[Any]]:
        each, last = len(params) // num_layers, []
        states = len(hidden) // num_layers
        x = input.transpose(0, 1) if batch_first else input
        for layer in range(num_layers):
            if layer and train and dropout:
                x = torch.dropout(x, dropout, train=True)
            own, begun = params[layer * each : (layer + 1) * each], hidden[layer * states : (layer + 1) * states]
            x, ended = original(x, begun, own, has_biases, 1, 0.0, train, bidirectional, False, layer_fn)
            last.extend(ended)
        return x.transpose(0, 1) if batch_first else x, last

    with mock.patch.object(decompositions, "_rnn_helper", layers):
        yield
