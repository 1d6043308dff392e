"""Batch normalization without momentum, in a step whose count of batches is a tensor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch.nn.modules.batchnorm import _BatchNorm

STATISTICS = ("running_mean", "running_var")


@contextmanager
def cumulative_averages(model: torch.nn.Module) -> Iterator[None]:
    """During the block, batch normalization with `momentum=None` averages over all batches without asking how many.

    PyTorch makes the count a Python number. Here each call leaves the statistics of its batch alone, and a hook behind
    it adds their share to what was there.
    """
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, _BatchNorm) and module.momentum is None and module.track_running_stats:
                stack.enter_context(mock.patch.object(module, "momentum", 1.0))
                before: dict[str, torch.Tensor] = {}
                stack.callback(module.register_forward_pre_hook(_keeper(before)).remove)
                stack.callback(module.register_forward_hook(_averager(before), prepend=True).remove)
        yield


def _keeper(before: dict[str, torch.Tensor]) -> Any:
    def keep(module: torch.nn.Module, _args: Any) -> None:
        if module.training:
            before.update({name: getattr(module, name).clone() for name in STATISTICS})

    return keep


def _averager(before: dict[str, torch.Tensor]) -> Any:
    def average(module: torch.nn.Module, _args: Any, _result: Any) -> None:
        for name, old in before.items():
            new = getattr(module, name)
            share = 1.0 / module.num_batches_tracked.double()  # type: ignore[operator]  # a buffer
            setattr(module, name, ((1 - share) * old + share * new).to(old.dtype))  # backward keeps the tensor itself
        before.clear()

    return average
