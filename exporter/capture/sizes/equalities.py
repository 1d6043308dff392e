"""Equal sizes while a model is captured: what PyTorch cannot learn from `a == b` does not end the capture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from torch.fx.experimental.symbolic_shapes import DimConstraints, ShapeEnv


@contextmanager
def equalities_tried() -> Iterator[None]:
    """Let a relation from which PyTorch fails to draw conclusions be checked when the model runs, and nothing more.

    It solves `rows == 8 * batch` for `batch` with the largest number that a size may be, rounds that to a power of two,
    and then misses that `8 * batch` is within the bounds of `rows`. At the end of a capture it takes each equality of
    one size to fix that size, and stops at those that hold for a range, as `n // 4 == (n // 4) ** 2 // (n // 4)`.
    """
    learned = ShapeEnv._maybe_guard_rel

    def tried(env: ShapeEnv, expr: Any) -> None:  # Any: relations of sympy, which has no types
        try:
            learned(env, expr)
        except AssertionError as error:
            if "not a subset of" not in str(error):
                raise

    with mock.patch.object(ShapeEnv, "_maybe_guard_rel", tried), mock.patch.object(DimConstraints, "solve", _solved):
        yield


_solve = DimConstraints.solve


def _solved(constraints: DimConstraints) -> None:
    """Solve for all sizes but those whose equalities fix none; PyTorch takes a size out before it looks at it."""
    while True:
        try:
            return _solve(constraints)
        except AssertionError as error:
            if "Expected an equality constraint" not in str(error):
                raise
