"""Truth values of tensors and of numbers that only data tells, as 0-d tensors of booleans."""

from __future__ import annotations

from typing import Any

import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from fxport.exporter.capture.control_flow.merging import DTYPES

NUMBERS = (SymBool, SymInt, SymFloat)


def depends_on_data(test: Any) -> bool:
    """Return whether only a run of the model can tell if this is true; a number is, unless it is 0."""
    return isinstance(test, Tensor) or (isinstance(test, NUMBERS) and bool(free_unbacked_symbols(test)))


def is_open(test: Any) -> bool:
    """Return whether another run, or another size, may give another answer."""
    if isinstance(test, (SymInt, SymFloat)):
        test = test != 0
    known = isinstance(test, SymBool) and (statically_known_true(test) or statically_known_true(torch.sym_not(test)))
    return isinstance(test, (Tensor, SymBool)) and not known


def predicate(test: Any) -> Tensor:
    """Return a truth value as a tensor of shape []: a copy, since the model may write to its own."""
    if isinstance(test, Tensor):
        return test.reshape(()).to(torch.bool, copy=True)
    if isinstance(test, (SymInt, SymFloat)):
        test = test != 0
    return torch.scalar_tensor(test, dtype=torch.bool)


def as_tensor(value: Any) -> Tensor:
    """Return a number as a tensor of shape []; a tensor as it is."""
    return value if isinstance(value, Tensor) else torch.scalar_tensor(value, dtype=DTYPES.get(type(value)))
