"""Equal sizes while a model is captured: what PyTorch cannot learn from `a == b` does not end the capture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from torch.fx.experimental.symbolic_shapes import ShapeEnv


@contextmanager
def equalities_tried() -> Iterator[None]:
    """Let a relation from which PyTorch fails to draw conclusions be checked when the model runs, and nothing more.

    It solves `rows == 8 * batch` for `batch` with the largest number that a size may be, rounds that to a power of two,
    and then misses that `8 * batch` is within the bounds of `rows`.
    """
    learned = ShapeEnv._maybe_guard_rel

    def tried(env: ShapeEnv, expr: Any) -> None:  # Any: relations of sympy, which has no types
        try:
            learned(env, expr)
        except AssertionError as error:
            if "not a subset of" not in str(error):
                raise

    with mock.patch.object(ShapeEnv, "_maybe_guard_rel", tried):
        yield
