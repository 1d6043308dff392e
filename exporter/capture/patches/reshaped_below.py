"""Tensors that are views at some sizes and copies at others, in a trace below autograd, which takes the writes out."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import SymInt, Tensor

from fxport.diagnostics import Place
from fxport.diagnostics.source import place_of_stack
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.function_mode import Part
from fxport.exporter.capture.knowledge import Versions
from fxport.exporter.capture.sizes.memory_conditions import CLONE

BY_SIZE = frozenset(
    {
        torch.flatten,
        torch.ravel,
        torch.reshape,
        Tensor.contiguous,
        Tensor.flatten,
        Tensor.ravel,
        Tensor.reshape,
        Tensor.reshape_as,
        Tensor.sum_to_size,
    }
)
"""Functions whose result may look at the memory of their first argument, as sizes and strides are."""

WRITTEN = "it makes what is a view at some sizes and a copy at others, and one of the two is written to later"


@dataclass(frozen=True, slots=True)
class _Made:
    versions: Versions | None
    place: Place | None


@contextmanager
def reshaped_unwritten(part: ReshapedNoted) -> Iterator[None]:
    """Raise RefusedError at the end where something was written to such a tensor, or to what it was made of.

    The trace has neither of them any more, so nobody can tell what a write should have reached.
    """
    yield
    for each in part.made:
        if each.versions is None or not each.versions.are_current:
            raise RefusedError(WRITTEN, place=each.place, cure=CLONE)


class ReshapedNoted(Part):
    """Note the tensors that such functions make."""

    functions = BY_SIZE

    def __init__(self) -> None:
        self.made: list[_Made] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if (
            func in BY_SIZE
            and args
            and result is not args[0]
            and any(isinstance(each, SymInt) for each in result.shape)
        ):
            place = place_of_stack(list(traceback.walk_stack(sys._getframe(1))))
            self.made.append(_Made(Versions.of(args[0], result), place))
        return result
