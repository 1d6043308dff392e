"""Averages that ask how many values they are of, in a step whose counts are tensors: of batches, and of models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import AveragedModel, get_swa_avg_fn

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


@contextmanager
def averaged_models() -> Iterator[None]:
    """While a step is traced, AveragedModel makes a copy or an average without asking how many there were."""
    if not torch.compiler.is_compiling():
        yield
        return
    with mock.patch.object(AveragedModel, "update_parameters", _update_parameters):
        yield


@torch.no_grad()
def _update_parameters(self: AveragedModel, model: torch.nn.Module) -> None:
    """Stand for PyTorch's method, which makes the count a Python number: in the first update it copies."""
    of_buffers = self.use_buffers
    own = [*self.module.parameters(), *(self.module.buffers() if of_buffers else ())]
    others = [*model.parameters(), *(model.buffers() if of_buffers else ())]
    averages, current = [each.detach() for each in own], [each.detach() for each in others]
    count: Any = self.n_averaged
    changed = [each.clone() for each in averages]
    if self.multi_avg_fn is not None:
        self.multi_avg_fn(changed, current, count)
    else:
        average: Any = self.avg_fn or get_swa_avg_fn()
        changed = [average(each, other, count) for each, other in zip(changed, current, strict=True)]
    for each, other, new in zip(averages, current, changed, strict=True):
        each.copy_(torch.where(count == 0, other, new))
    if not of_buffers:
        for each, other in zip(self.module.buffers(), model.buffers(), strict=True):
            each.detach().copy_(other.detach())
    count.add_(1)
