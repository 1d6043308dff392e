"""Parts of a training step: the model, its optimizers, and its losses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.optim import Optimizer

LossFn = Callable[..., Any]
"""`loss_fn(model, *batch)` returns the loss, or (loss, {name: tensor})."""


class Phase(NamedTuple):
    """A part of a step: a loss, the optimizers that step on its gradients, and the number of their first group."""

    loss_fn: LossFn
    optimizers: tuple[Optimizer, ...]
    first: int = 0

    @property
    def parameters(self) -> frozenset[int]:
        """The ids of the parameters that are updated."""
        return frozenset(id(p) for each in self.optimizers for group in each.param_groups for p in group["params"])


@dataclass(frozen=True)
class Parts:
    """Parts of a step."""

    model: torch.nn.Module
    optimizer: Optimizer | Sequence[Optimizer]
    loss_fn: LossFn | Sequence[LossFn]
    context: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Context manager around forward and backward."""

    @property
    def around(self) -> dict[str, Any]:
        """Parts that run in a step beside the model, by name."""
        several = {f"optimizer.{number}": each for number, each in enumerate(self.optimizers)}
        optimizers = {"optimizer": self.optimizer} if isinstance(self.optimizer, Optimizer) else several
        alternating = {f"loss_fn.{number}": each for number, each in enumerate(self.losses)}
        losses = alternating if isinstance(self.loss_fn, Sequence) else {"loss_fn": self.loss_fn}
        return {**losses, "context": self.context, **optimizers}

    @property
    def optimizers(self) -> tuple[Optimizer, ...]:
        """The optimizers, which step one after the other."""
        return (self.optimizer,) if isinstance(self.optimizer, Optimizer) else tuple(self.optimizer)

    @property
    def losses(self) -> tuple[LossFn, ...]:
        """The loss functions: one, or one for each optimizer."""
        return (*self.loss_fn,) if isinstance(self.loss_fn, Sequence) else (self.loss_fn,)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """One with all optimizers; of several loss functions one for each, which begins at what the last came to."""
        if not isinstance(self.loss_fn, Sequence):
            return (Phase(self.loss_fn, self.optimizers),)
        firsts = itertools.accumulate((len(each.param_groups) for each in self.optimizers), initial=0)
        alternating = zip(self.losses, self.optimizers, firsts, strict=False)  # the last of `firsts` is their count
        return tuple(Phase(loss_fn, (each,), first) for loss_fn, each, first in alternating)

    @property
    def groups(self) -> list[dict[str, Any]]:
        """The groups of all optimizers, as the learning rates number them."""
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    @property
    def names(self) -> dict[int, str]:
        """The name of every parameter by its id; tied ones have one."""
        return {id(parameter): name for name, parameter in self.model.named_parameters()}
