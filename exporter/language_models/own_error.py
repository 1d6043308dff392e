"""The error that eager PyTorch itself has in half precision: the yardstick of a package in the same type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from fxport.diagnostics.messages import error_line
from fxport.exporter.capture.float64 import NotWide, wide_types
from fxport.ort_runner.package_config import PackageError

HALVES = (torch.float16, torch.bfloat16)
RATIO = 2
"""Two computations that are each off by the error of one may be apart by this many times that."""


CEILING = 0.1
"""The largest error of eager PyTorch, in parts of the largest logit, beside which a fault would still be seen."""


class Taking(Protocol):
    """Something that takes tokens [batch, sequence] and gives their logits."""

    def feed(self, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray: ...


class InFloat64:
    """A model in PyTorch, run in float64 with the weights that it has.

    Args:
        model: The model of transformers.
        eager: What feeds it, with a cache of its own.
    """

    def __init__(self, model: Any, eager: Taking) -> None:
        self._model, self._eager = model, eager

    def feed(self, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """The logits [batch, sequence, vocabulary]. Raises PackageError for a model that has no run in float64."""
        try:
            with _single_experts(self._model), wide_types(operands=True):
                return self._eager.feed(ids, mask)
        except (NotWide, RuntimeError) as error:  # an operator of PyTorch may have no kernel for float64
            raise PackageError(
                f"the model has no run in float64 ({error_line(error)}), so how exact its half precision is cannot be "
                "told; omit --dtype."
            ) from error


@contextmanager
def _single_experts(model: Any) -> Iterator[None]:
    """Let a mixture of experts multiply by one after the other: PyTorch's product of all has no float64."""
    if not hasattr(model, "get_experts_implementation"):  # which is newer than the other
        yield
        return
    before = model.get_experts_implementation()
    model.set_experts_implementation("eager")
    try:
        yield
    finally:
        model.set_experts_implementation(before)


class Measured:
    """A model in half precision that takes tokens, beside its own run in float64.

    Attributes:
        error: The largest error of a logit so far, in parts of the largest logit.
    """

    def __init__(self, eager: Taking, exact: Taking) -> None:
        self._eager, self._exact = eager, exact
        self.error = 0.0

    def feed(self, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """The logits [batch, sequence, vocabulary] in half precision."""
        got, want = self._eager.feed(ids, mask), self._exact.feed(ids, mask)
        seen = np.ones(ids.shape, bool) if mask is None else mask > 0
        self.error = max(self.error, error_of(want[seen], got[seen]))
        return got


class Limits(NamedTuple):
    """The largest error of a logit that is allowed, and the largest distance of two that are a tie.

    Both are in parts of the largest logit.
    """

    error: float
    tie: float

    def beside(self, eager: Taking) -> Limits:
        """These limits, or twice the error that eager PyTorch itself has, where that is measured and larger.

        Raises PackageError where that error is so large that nothing could be told from a fault.
        """
        if not isinstance(eager, Measured):
            return self
        if not eager.error <= CEILING:
            raise PackageError(
                f"eager PyTorch in half precision is itself off by {eager.error:.2g} of the largest logit from what "
                "the same weights give in float64; choose the other type of half precision, or omit --dtype."
            )
        own = RATIO * eager.error
        return Limits(max(self.error, own), max(self.tie, own))


def own_of(eager: Taking) -> float | None:
    """The error that eager PyTorch has itself; None where that was not measured, in float32."""
    return eager.error if isinstance(eager, Measured) else None


def is_half(model: torch.nn.Module) -> bool:
    """Return True for a model that has weights in half precision."""
    return any(each.dtype in HALVES for each in model.parameters())


def error_of(want: np.ndarray, got: np.ndarray) -> float:
    """The largest error in parts of the largest value; infinite where either has a value that is not finite."""
    if not (np.isfinite(want).all() and np.isfinite(got).all()):
        return float("inf")
    return float(np.abs(want - got).max()) / max(float(np.abs(want).max()), float(np.finfo(np.float32).tiny))
