"""The parts of a training step, from the function that SOURCE names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fxport.diagnostics.amounts import plural
from fxport.exporter.sources.source import found, require_arguments, seed
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.sources.users_code import users_code

PARTS = "(model, optimizer, loss_fn, batch[, dynamic_shapes])"


def step_parts(text: str) -> Sequence[Any]:
    """Return the parts that the function named by SOURCE returns.

    Raises:
        UsageError: A mistake or an exception in the function, or parts of other kinds.
    """
    from torch.nn import Module

    from fxport.exporter.training.kinds import require_kinds
    from fxport.exporter.training.step import TrainingError

    value, _ = found(text, f"NAME is a function that returns {PARTS}")
    if not callable(value) or isinstance(value, Module):
        what = "a model" if isinstance(value, Module) else "no function"
        raise UsageError(f"'{text}' is {what}; name a function that returns {PARTS}.")
    require_arguments(value, text, f"name a function without parameters that returns {PARTS}", option=None)
    seed()
    parts = users_code(value, f"Calling '{text}'")
    if not isinstance(parts, tuple) or not 4 <= len(parts) <= 5:
        is_tuple = isinstance(parts, tuple)
        given = f"a tuple of {plural(len(parts), 'value')}" if is_tuple else f"a value of type '{type(parts).__name__}'"
        raise UsageError(f"'{text}' gives {given}; it should be {PARTS}.")
    try:
        require_kinds(*parts[:4])
    except TrainingError as error:
        raise UsageError(f"'{text}' should return {PARTS}: {error}.") from error
    return parts
