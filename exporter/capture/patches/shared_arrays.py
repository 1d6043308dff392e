"""Tensors that share memory with a NumPy array: a write to one is refused where the model has the array as well.

`z = torch.from_numpy(a)` is `a` by another name. A trace writes to tensors of its own, and NumPy computes as ever:
after `z += x`, the array of a capture has what it had before.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fxport.diagnostics import Place
from fxport.exporter.capture.knowledge import version
from fxport.exporter.capture.patches.environment import replaced_everywhere
from fxport.exporter.capture.patches.extremes import unwritten
from fxport.exporter.capture.patches.users_modules import users_modules

WRITTEN = "it writes to a tensor that shares memory with a NumPy array"
COPY = "Make a tensor of its own: `torch.tensor(array)`."

SHARING = (torch.from_numpy, torch.as_tensor, torch.asarray)
"""Functions that make a tensor with the memory of an array."""

_COUNTING = 2
"""References to an array that the function which counts them has itself."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A tensor with the memory of an array, which is not kept; and the references to the array that the tensor has."""

    tensor: Tensor
    array: weakref.ref[Any]
    version: int | None
    references: int
    place: Place | None = None
    reason: str = WRITTEN
    cure: str = COPY

    @property
    def is_alive(self) -> bool:
        """True: a view of the tensor may outlive it."""
        return True

    @property
    def is_written(self) -> bool:
        """True if the tensor was written to, and the model has the array, or one that it is a view of."""
        if version(self.tensor) == self.version:
            return False
        array = self.array()
        while isinstance(array, np.ndarray):
            if sys.getrefcount(array) > _COUNTING + self.references:
                return True
            array = array.base
        return False


def note_shared(tensor: Tensor, array: Any, *, references: int) -> None:
    """Note that a tensor and an array share memory, and how many references to the array the tensor has."""
    if (found := unwritten.get()) is not None:
        found.append(Shared(tensor, weakref.ref(array), version(tensor), references))


@contextmanager
def shared_arrays_noted() -> Iterator[None]:
    """Note the tensors that functions of SHARING make of arrays."""

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            array = next((each for each in (*args[:1], *kwargs.values()) if isinstance(each, np.ndarray)), None)
            if array is not None:
                note_shared(result, array, references=1)
            return result

        return functools.wraps(function)(made)

    functions = {function: noting(function) for function in SHARING}
    with replaced_everywhere((torch, *users_modules().values()), functions):
        yield
