"""`min` and `max` of tensors: in Python one of them, in the graph a third with its values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Protocol

import torch
from torch import SymInt, Tensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.weak import TensorWeakRef

from fxport.diagnostics import Place
from fxport.exporter.capture.control_flow.absent_gradients import selected
from fxport.exporter.capture.control_flow.alternatives import note_alternatives
from fxport.exporter.capture.control_flow.lifting import is_rehearsal
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.forward import forward_by
from fxport.exporter.capture.guards.askers import place_of_asker
from fxport.exporter.capture.knowledge import Versions, version
from fxport.exporter.capture.patches.mixed_kinds import OWN
from fxport.exporter.capture.patches.tensors_or_numbers import CURE, NOT_HELD, marked_as_number


@dataclass(frozen=True, slots=True)
class Either:
    """A tensor that is one of two in Python, and a third one in the graph.

    `place` is the line that wrote to one of them and was given the result, as `y[i] = max(y[i], z)` is: the result may
    not outlive that.
    """

    result: TensorWeakRef
    version: int | None
    others: Versions | None
    place: Place | None = None
    reason: str = "it writes to a tensor that `min` or `max` has made another name of"
    cure: str = "Take a copy of its own before the write, with `.clone()`."

    @property
    def is_alive(self) -> bool:
        """True if the model still has the result."""
        return self.result() is not None

    @property
    def is_written(self) -> bool:
        """True if the result is still alive, and it or one of the two was written to."""
        result = self.result()
        return result is not None and (version(result) != self.version or not (self.others and self.others.are_current))

    def is_only_read(self, values: Sequence[Any]) -> bool:
        """Return whether the result is one of the values, and what was written to is one of the two."""
        result = self.result()
        return result is not None and version(result) == self.version and any(each is result for each in values)


@dataclass(frozen=True, slots=True)
class Turned(Either):
    """A tensor with the rows of another one in another order, which are the same in Python."""

    reason: str = "it writes to an element of a list of which the graph has a copy elsewhere"
    cure: str = "Take copies of their own before the write: `[each.clone() for each in items]`."


class Watched(Protocol):
    """A tensor that the model may not write to."""

    @property
    def reason(self) -> str:
        """The reason why it may not, in a clause that begins with "it"."""
        ...

    @property
    def cure(self) -> str:
        """Advice in words."""
        ...

    @property
    def place(self) -> Place | None:
        """The line that wrote to it; None for the one that runs."""
        ...

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


@contextmanager
def unwritten_watched(model: torch.nn.Module) -> Iterator[None]:
    """Note such tensors meanwhile; refuse those written to that the model has where forward ends."""
    found: list[Watched] = []
    running = 0

    def call(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        nonlocal running
        if not running:  # forward may call itself
            found.clear()  # of an attempt before, whose error holds its tensors
        running += 1
        try:
            result = forward(*args, **kwargs)
        finally:
            running -= 1
        require_unwritten(found)
        return result

    token = unwritten.set(found)
    try:
        with forward_by(model, call):
            yield
    finally:
        unwritten.reset(token)


def require_unwritten(found: list[Watched], given: Sequence[Any] = ()) -> None:
    """Raise RefusedError if a tensor was written to that may not be; `given` are the arguments of the call that ends.

    A rehearsal keeps all that is made in it, so that nothing of it is noted; lines are refused where they are traced.
    """
    if is_rehearsal():
        return
    found[:] = [each for each in found if each.is_alive]
    for i, each in enumerate(found):
        if isinstance(each, Either) and each.place is None and each.is_written and each.is_only_read(given):
            found[i] = replace(each, place=place_of_asker())
        elif each.is_written:
            raise RefusedError(each.reason, place=each.place, cure=each.cure)


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
    if (found := unwritten.get()) is not None and version(result) is not None and not is_rehearsal():
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
