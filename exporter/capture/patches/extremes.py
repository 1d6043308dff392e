"""`min` and `max` of tensors: in Python one of them, in the graph a third with its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Protocol

import torch
from torch import SymInt, Tensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.weak import TensorWeakRef

from fxport.exporter.capture.control_flow.absent_gradients import selected
from fxport.exporter.capture.control_flow.alternatives import note_alternatives
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.knowledge import Versions, version
from fxport.exporter.capture.patches.mixed_kinds import OWN
from fxport.exporter.capture.patches.tensors_or_numbers import CURE, NOT_HELD, marked_as_number


@dataclass(frozen=True, slots=True)
class Either:
    """A tensor that is one of two in Python, and a third one in the graph."""

    result: TensorWeakRef
    version: int | None
    others: Versions | None
    reason: ClassVar[str] = "it writes to a tensor that `min` or `max` has made another name of"
    cure: ClassVar[str] = "Take a copy of its own before the write, with `.clone()`."

    @property
    def is_alive(self) -> bool:
        """True if the model still has the result."""
        return self.result() is not None

    @property
    def is_written(self) -> bool:
        """True if the result is still alive, and it or one of the two was written to."""
        result = self.result()
        return result is not None and (version(result) != self.version or not (self.others and self.others.are_current))


class Turned(Either):
    """A tensor with the rows of another one in another order, which are the same in Python."""

    reason: ClassVar[str] = "it writes to an element of a list of which the graph has a copy elsewhere"
    cure: ClassVar[str] = "Take copies of their own before the write: `[each.clone() for each in items]`."


class Watched(Protocol):
    """A tensor that the model may not write to, with the reason and the cure for a message."""

    reason: ClassVar[str]
    cure: ClassVar[str]

    @property
    def is_alive(self) -> bool:
        """True as long as it is to be watched."""
        ...

    @property
    def is_written(self) -> bool:
        """True if it was written to."""
        ...


unwritten: ContextVar[list[Watched] | None] = ContextVar("unwritten", default=None)
"""The tensors of the trace that runs to which nothing may be written, such as the results of `min` and `max`."""


def watch_turned(result: Tensor, other: Tensor) -> None:
    """Let nothing be written to a tensor that has the rows of another one, nor to that."""
    if (found := unwritten.get()) is not None and version(result) is not None:
        found.append(Turned(TensorWeakRef(result), version(result), Versions.of(other)))


def one_of(values: Sequence[Any], is_better: Callable[[Any, Any], Any]) -> Tensor | None:
    """Return the first value that no later one is better than, as Python compares them: also with NaN.

    Args:
        values: Tensors of one element, and numbers.
        is_better: Compares a later value with the best one before it.

    Returns:
        A tensor of the shape of all tensors; None where the shape of the result hangs on the data.
    """
    tensors = _of_one_form(values)
    if tensors is None:
        return None
    result = reduce(lambda one, other: _either(is_better(other, one), one, other), tensors)
    numbers = [each for each in values if not isinstance(each, Tensor)]
    if numbers:  # what asks for the type or an attribute is told apart from a tensor
        note_alternatives([result], [[each] for each in numbers], frozenset())
    return marked_as_number(result, numbers)


def _either(is_other: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Return one tensor or the other, by a test, and note it."""
    result = selected(is_other, other, one)
    note_alternatives([result], [[one], [other]], frozenset())
    if (found := unwritten.get()) is not None and version(result) is not None:
        found.append(Either(TensorWeakRef(result), version(result), Versions.of(one, other)))
    return result


def _of_one_form(values: Sequence[Any]) -> list[Tensor] | None:
    """Return values as tensors of one dtype and shape; a number becomes one of shape []. None if their forms differ.

    Raises:
        RefusedError: The dtype has no such number, so that the result is either a tensor or another number.
    """
    like = next(each for each in values if isinstance(each, Tensor))
    found: list[Tensor] = []
    given: Sequence[Any] = values  # the stubs know no symbolic numbers
    for each in given:
        if isinstance(each, Tensor) and each.dtype == like.dtype and each.shape == like.shape:
            found.append(each)
        elif isinstance(each, (Tensor, bool)) or like.dim() or like.dtype is torch.bool:
            return None
        elif not _is_kept(each, like.dtype):
            raise RefusedError(NOT_HELD.format(kind=OWN.get(type(each), type(each)).__name__), cure=CURE)
        else:
            found.append(torch.scalar_tensor(each, dtype=like.dtype, device=like.device))
    return found


def _is_kept(number: Any, dtype: torch.dtype) -> bool:
    """Return whether a tensor of a dtype can stand for a number: halves have fewer digits than what is computed."""
    if not dtype.is_floating_point:
        return isinstance(number, (int, SymInt))
    if dtype.itemsize >= torch.float32.itemsize:
        return True
    with _disable_current_modes(), torch._C.DisableTorchFunction():  # no trace shall see it
        return isinstance(number, (int, float)) and torch.tensor(number, dtype=dtype).item() == number
