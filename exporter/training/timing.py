"""Run time of a training step in eager PyTorch, and the inputs with which ONNX Runtime is timed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_
from torch.utils import _pytree as pytree

from fxport.exporter.training.description import rates_of
from fxport.exporter.training.parts import Parts
from fxport.exporter.training.step import RATE, SEED, batch_names, split_loss, state_of
from fxport.exporter.weights.arrays import as_array


@dataclass(frozen=True)
class TimedStep:
    """A training step as its file describes it: how many steps a run makes, of how many micro-batches, and the clip."""

    parts: Parts
    batch: Sequence[Any]
    steps: int = 1
    accumulate: int = 1
    clip_grad_norm: float | None = None

    def inputs(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the values of inputs of the file, in its order. Raises KeyError for one that a step does not have."""
        leaves = [each for each in pytree.tree_leaves(tuple(self.batch)) if isinstance(each, torch.Tensor)]
        batch = dict(zip(batch_names(self.parts.losses[0], self.batch), leaves, strict=True))
        if self.steps > 1:
            batch = {name: torch.stack([value] * self.steps) for name, value in batch.items()}
        rates = {f"{RATE}/{group}": rate for group, rate in rates_of(self.parts).items()}
        values: Mapping[str, torch.Tensor] = {**state_of(self.parts), **batch, **rates, SEED: torch.tensor(0)}
        return {name: as_array(values[name]) for name in names}

    def seconds(self, *, runs: int, warmup: int, device: str, compiled: bool) -> list[float]:
        """Return the seconds of each of `runs` runs in PyTorch, after `warmup` more. The model is trained by them."""
        parts, optimizers = self.parts, self.parts.optimizers
        parts.model.to(device)
        for each in optimizers:
            each.load_state_dict(each.state_dict())  # moves the state to where the parameters are
        batch = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), tuple(self.batch))

        def step() -> None:
            for loss_fn, own, _ in parts.phases:
                for each in optimizers:
                    each.zero_grad()
                for micro in parts_of(batch, self.accumulate):
                    with parts.context():
                        loss, _ = split_loss(loss_fn(parts.model, *micro))
                        (loss / self.accumulate if self.accumulate > 1 else loss).backward()
                if self.clip_grad_norm is not None:
                    clip_grad_norm_(
                        [p for each in own for group in each.param_groups for p in group["params"]], self.clip_grad_norm
                    )
                for each in own:
                    each.step()

        run = torch.compile(step) if compiled else step
        seconds = []
        for _ in range(warmup + runs):
            start = time.perf_counter()
            for _ in range(self.steps):
                run()
            if device != "cpu":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
        return seconds[warmup:]


def parts_of(batch: tuple[Any, ...], count: int) -> list[tuple[Any, ...]]:
    """Return the micro-batches along the first axis of every tensor; the batch itself if there is one."""
    if count == 1:
        return [batch]
    leaves, spec = pytree.tree_flatten(batch)
    parts = ([leaf[turn] if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves] for turn in range(count))
    return [pytree.tree_unflatten(part, spec) for part in parts]
