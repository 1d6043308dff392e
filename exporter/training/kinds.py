"""Kinds of the parts of a training step, checked before the first use of one fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn, optim

from fxport.exporter.distributed import wrapped_by
from fxport.exporter.training.step import TrainingError

KINDS: Mapping[str, tuple[Any, str]] = {
    "model": (nn.Module, "give an nn.Module"),
    "optimizer": (optim.Optimizer, "give one optimizer, with a group of parameters for each rate or setting"),
    "loss_fn": (Callable, "give a function loss_fn(model, *batch)"),
    "batch": (Sequence, "give a tuple of what loss_fn takes after the model"),
}
"""By argument of `export_training_step`: the kind, and what to do."""


def require_kinds(*parts: Any) -> None:
    """Refuse parts of other kinds than `KINDS` has, and a model in a wrapper. Raises TrainingError."""
    for (name, (kind, cure)), part in zip(KINDS.items(), parts, strict=True):
        if not isinstance(part, kind):
            raise TrainingError(f"{name} is of type '{type(part).__name__}'; {cure}")
    model = parts[0]
    if (attribute := wrapped_by(model)) is not None:
        wrapper = type(model).__name__
        raise TrainingError(f"model is in a {wrapper}, which a step does not have; give the module in it: .{attribute}")
