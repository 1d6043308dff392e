"""`min` and `max` of tensors: in Python one of them, in the graph a third with its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import SymFloat, SymInt, Tensor
from torch.utils.weak import TensorWeakRef

from fxport.exporter.capture.knowledge import Versions, version


@dataclass(frozen=True, slots=True)
class Either:
    """A tensor that is one of two in Python, and a third one in the graph."""

    result: TensorWeakRef
    version: int | None
    others: Versions | None

    @property
    def is_written(self) -> bool:
        """True if the result is still alive, and it or one of the two was written to."""
        result = self.result()
        return result is not None and (version(result) != self.version or not (self.others and self.others.are_current))


eithers: ContextVar[list[Either] | None] = ContextVar("eithers", default=None)
"""The results of `min` and `max` in the trace that runs."""


def one_of(values: Sequence[Any], is_better: Callable[[Any, Any], Any]) -> Tensor | None:
    """Return the first value that no later one is better than, as Python compares them: also with NaN.

    Args:
        values: Tensors of one element, and numbers.
        is_better: Compares a later value with the best one before it.

    Returns:
        A tensor of the shape of all tensors; None where the dtype or the shape of the result hangs on the data.
    """
    tensors = _of_one_form(values)
    return None if tensors is None else reduce(lambda one, other: _either(is_better(other, one), one, other), tensors)


def _either(is_other: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Return one tensor or the other, by a test, and note it."""
    result = torch.where(is_other, other, one)
    if (found := eithers.get()) is not None and version(result) is not None:
        found.append(Either(TensorWeakRef(result), version(result), Versions.of(one, other)))
    return result


def _of_one_form(values: Sequence[Any]) -> list[Tensor] | None:
    """Return values as tensors of one dtype and shape; a number becomes one of shape [] where that keeps its value."""
    like = next(each for each in values if isinstance(each, Tensor))
    found: list[Tensor] = []
    given: Sequence[Any] = values  # the stubs know no symbolic numbers
    for each in given:
        fits = isinstance(each, (int, SymInt)) or (isinstance(each, (float, SymFloat)) and like.is_floating_point())
        if isinstance(each, Tensor) and each.dtype == like.dtype and each.shape == like.shape:
            found.append(each)
        elif not isinstance(each, (Tensor, bool)) and fits and not like.dim() and like.dtype is not torch.bool:
            found.append(torch.scalar_tensor(each, dtype=like.dtype, device=like.device))  # type: ignore[arg-type]  # symbolic numbers too
        else:
            return None
    return found
