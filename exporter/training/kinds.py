"""Kinds of the parts of a training step, checked before the first use of one fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn, optim

from fxport.exporter.distributed import wrapped_by
from fxport.exporter.training.step import TrainingError


def _is_a(kind: Any) -> Callable[[Any], bool]:
    return lambda part: isinstance(part, kind)


def _one_or_several(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda part: all(map(fits, part if isinstance(part, Sequence) and part else (part,)))


KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "model": (_is_a(nn.Module), "give an nn.Module"),
    "optimizer": (_one_or_several(_is_a(optim.Optimizer)), "give an optimizer, or a list of several that step in turn"),
    "loss_fn": (
        _one_or_several(callable),
        "give a function loss_fn(model, *batch), or a list of one for each optimizer",
    ),
    "batch": (_is_a(Sequence), "give a tuple of what loss_fn takes after the model"),
}
"""By argument of `export_training_step`: what it must be, and what to do."""


def require_kinds(*parts: Any) -> None:
    """Refuse parts of other kinds than `KINDS` has, and a model in a wrapper. Raises TrainingError."""
    for (name, (fits, cure)), part in zip(KINDS.items(), parts, strict=True):
        if not fits(part):
            raise TrainingError(f"{name} is of type '{type(part).__name__}'; {cure}")
    model, optimizer, loss_fn, _ = parts
    if isinstance(loss_fn, Sequence) and (isinstance(optimizer, optim.Optimizer) or len(optimizer) != len(loss_fn)):
        raise TrainingError("loss_fn is a list; give as many optimizers as loss functions, each for its own")
    if (attribute := wrapped_by(model)) is not None:
        wrapper = type(model).__name__
        raise TrainingError(f"model is in a {wrapper}, which a step does not have; give the module in it: .{attribute}")
