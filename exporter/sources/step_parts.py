"""The parts of a training step, from the function that SOURCE names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fxport.exporter.sources.source import found, require_arguments, seed, users_code
from fxport.exporter.sources.usage import UsageError

PARTS = "(model, optimizer, loss_fn, batch[, dynamic_shapes])"


def step_parts(text: str) -> Sequence[Any]:
    """Return the parts that the function named by SOURCE returns. Raises UsageError for a mistake or an exception in
    it.
    """
    value, _ = found(text, f"NAME is a function that returns {PARTS}")
    if not callable(value):
        raise UsageError(f"'{text}' is no function; name one that returns {PARTS}.")
    require_arguments(value, text, "write one without that calls it")
    seed()
    parts = users_code(value, f"Calling '{text}'")
    if not isinstance(parts, tuple) or not 4 <= len(parts) <= 5:
        raise UsageError(f"'{text}' gives a value of type '{type(parts).__name__}'; it should be {PARTS}.")
    _refuse_strangers(parts, text)
    return parts


def _refuse_strangers(parts: Sequence[Any], text: str) -> None:
    """Refuse parts of another kind than their places are for, before the first use of one fails."""
    from torch import nn, optim

    kinds = {"model": nn.Module, "optimizer": optim.Optimizer, "loss_fn": Callable, "batch": Sequence}
    for (name, kind), part in zip(kinds.items(), parts[:4], strict=True):
        if not isinstance(part, kind):
            raise UsageError(f"The {name} of '{text}' is of type '{type(part).__name__}'; it should return {PARTS}.")
