"""Numbers of axes and places along them, as PyTorch counts them: from either end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import sympy
from torch.utils._sympy.functions import Max

from fxport.exporter.lowering.lower.builder import Op, Size, Value

LAST = int(np.iinfo(np.int64).max)
"""An end that every axis stops before."""

BEFORE_FIRST = int(np.iinfo(np.int64).min)
"""The end of a Slice that runs backwards to the first element."""


def axis_of(dim: int, rank: int) -> int:
    """An axis counted from the front; a 0-d tensor has axis 0, as far as PyTorch's arguments go."""
    return dim % max(rank, 1)


def moved(rank: int, places: Mapping[int, int]) -> list[int]:
    """An order of axes, as Transpose takes it, with `places[to] = axis`; the others keep their order in the rest."""
    rest = iter([axis for axis in range(rank) if axis not in places.values()])
    return [places[to] if to in places else next(rest) for to in range(rank)]


def from_start(index: Size, size: Size) -> Size:
    """A place along an axis of `size` as a number from 0 on; places before the first are 0, as PyTorch clamps them.

    A symbolic place whose sign is not known becomes an expression that asks for it when the model runs.
    """
    if isinstance(index, int):
        if index >= 0:
            return index
        return max(size + index, 0) if isinstance(size, int) else _max(size + index, 0)
    if index.is_nonnegative:
        return index
    wrapped = _max(index + size, 0)
    if index.is_negative:
        return wrapped
    return sympy.Piecewise((wrapped, index < 0), (index, True))  # type: ignore[return-value]  # of integers


def _max(a: Size, b: Size) -> sympy.Expr:
    return Max(a, b)  # type: ignore[return-value]  # sympy leaves open what a function makes of its arguments


def sliced(op: Op, x: Value, axis: int, start: Size, end: Size = LAST, step: Size = 1) -> Value:
    """`x[start:end:step]` along one axis; ONNX's Slice clamps its bounds as PyTorch does."""
    return op.Slice(x, op.shape([start]), op.shape([end]), [axis], None if step == 1 else op.shape([step]))


def flat(op: Op, x: Value) -> Value:
    """`x` as a vector."""
    sizes = op.sizes(x)
    return x if len(sizes) == 1 else op.reshape(x, [product(sizes)])


def product(sizes: Sequence[Size]) -> Size:
    """The number of elements."""
    count: Size = 1
    for size in sizes:
        count = count * size
    return count
