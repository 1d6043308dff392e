"""Elements at a tie: those that PyTorch's own rounding decides either way.

Where a model rounds, compares or takes the largest, a last digit decides, and the next kernel decides otherwise: the
code 16 or 17 of a quantized activation, the index of one of two equal logits. Such an element is told by PyTorch
itself, run again with the result of each inexact operation moved by its last place (Monte Carlo arithmetic, Parker
1997). Nothing else is left out: an element that those runs do not move is judged, however small their number.
"""

from __future__ import annotations

import numpy as np

from fxport.ort_runner.budget import Budget

MOST = 1 / 16
"""The largest part of an output that may be at ties. Where more moves, the whole result is a matter of rounding."""

FAR = 16.0
"""Factor by which other roundings move an element at a tie more than the median of all elements."""

BEYOND = 2.0
"""Factor by which an element at a tie may deviate more than PyTorch's own runs: steps of several ties add up."""


def of_numbers(want: np.ndarray, got: np.ndarray, roundings: np.ndarray | None) -> np.ndarray:
    """bool array: integers or booleans that PyTorch gives otherwise with other roundings, of which one is `got`."""
    if not _fit(want, roundings):
        return np.zeros(want.shape, np.bool_)
    assert roundings is not None
    return _if_few((roundings != want).any(0) & (roundings == got).any(0))


def of_reals(
    want: np.ndarray, got: np.ndarray, exact: np.ndarray | None, budget: Budget, roundings: np.ndarray | None
) -> np.ndarray:
    """Return a bool array of the elements that other roundings move in PyTorch much further than most, and by more than
    a rounding unit of the largest; and in which ONNX Runtime is further off, too, but at most BEYOND times as far."""
    if not _fit(want, roundings):
        return np.zeros(want.shape, np.bool_)
    assert roundings is not None
    w, g, r = want.astype(np.float64), got.astype(np.float64), roundings.astype(np.float64)
    x = w if exact is None else exact.astype(np.float64)
    finite = np.isfinite(w) & np.isfinite(g) & np.isfinite(x) & np.isfinite(r).all(0)
    w, g, x, r = (np.where(finite, each, 0.0) for each in (w, g, x, r))
    moved = np.abs(r - w).max(0)
    limit = max(FAR * float(np.median(moved)), budget.epsilon * float(np.abs(x).max(initial=0.0)))
    distance = np.abs(g - w)
    return _if_few((np.minimum(moved, distance) > limit) & (distance <= BEYOND * moved))


def _fit(want: np.ndarray, roundings: np.ndarray | None) -> bool:
    return roundings is not None and roundings.dtype == want.dtype and roundings.shape[1:] == want.shape


def _if_few(found: np.ndarray) -> np.ndarray:
    return found if np.count_nonzero(found) <= MOST * found.size else np.zeros(found.shape, np.bool_)
