"""Elements at a tie: those that PyTorch's own rounding decides either way.

Where a model rounds, compares or takes the largest, a last digit decides, and the next kernel decides otherwise: the
code 16 or 17 of a quantized activation, the index of one of two equal logits. Such an element is told by PyTorch
itself, run again with the result of each inexact operation moved by its last place (Monte Carlo arithmetic, Parker
1997). Nothing else is left out: an element that those runs do not move is judged, however small their number. Nor is
any where ONNX Runtime decides otherwise more often than one of those runs does: chance takes either side, a fault one.
"""

from __future__ import annotations

import math

import numpy as np

from fxport.ort_runner.budget import Budget

MOST = 1 / 16
"""The largest part of an output that may be at ties. Where more moves, the whole result is a matter of rounding."""

FAR = 16.0
"""Factor by which other roundings move an element at a tie more than the median of all elements."""

CHANCE = 3.0
"""Standard deviations by which more elements may be decided otherwise than in the run in which most are."""

BEYOND = 2.0
"""Factor by which an element at a tie may deviate more than PyTorch's own runs: steps of several ties add up."""


def of_numbers(want: np.ndarray, got: np.ndarray, roundings: np.ndarray | None) -> np.ndarray:
    """bool array: integers or booleans that ONNX Runtime gives otherwise, and PyTorch with other roundings as well.

    There are none where more than MOST of all are at ties, those included that ONNX Runtime gives as PyTorch does.
    """
    if not fit(want, roundings):
        return np.zeros(want.shape, np.bool_)
    assert roundings is not None
    moved = roundings != want
    at_tie = moved.any(0) & (roundings == got).any(0)
    if np.count_nonzero(at_tie) > MOST * at_tie.size:
        return np.zeros(want.shape, np.bool_)
    return _if_few(at_tie & (got != want), moved)


def of_reals(
    want: np.ndarray, got: np.ndarray, exact: np.ndarray | None, budget: Budget, roundings: np.ndarray | None
) -> np.ndarray:
    """Return a bool array of the elements that other roundings move in PyTorch much further than most, and by more than
    a rounding unit of the largest; and in which ONNX Runtime is further off, too, but at most BEYOND times as far."""
    if not fit(want, roundings):
        return np.zeros(want.shape, np.bool_)
    assert roundings is not None
    w, g, r = want.astype(np.float64), got.astype(np.float64), roundings.astype(np.float64)
    x = w if exact is None else exact.astype(np.float64)
    finite = np.isfinite(w) & np.isfinite(g) & np.isfinite(x) & np.isfinite(r).all(0)
    w, g, x, r = (np.where(finite, each, 0.0) for each in (w, g, x, r))
    steps = np.abs(r - w)
    moved = steps.max(0)
    limit = max(FAR * float(np.median(moved)), budget.epsilon * float(np.abs(x).max(initial=0.0)))
    distance = np.abs(g - w)
    return _if_few((np.minimum(moved, distance) > limit) & (distance <= BEYOND * moved), steps > limit)


def fit(want: np.ndarray, roundings: np.ndarray | None) -> bool:
    """Return True if runs with other roundings are of the type and the shape of a result."""
    return roundings is not None and roundings.dtype == want.dtype and roundings.shape[1:] == want.shape


def _if_few(found: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Return `found` if these are few, and not many more than one of the runs has `moved`."""
    count = np.count_nonzero(found)
    most = max(np.count_nonzero(each) for each in moved)
    is_chance = count <= most + CHANCE * math.sqrt(most) + 1
    return found if count <= MOST * found.size and is_chance else np.zeros(found.shape, np.bool_)


def unmoved_by_chance(found: np.ndarray, moved: np.ndarray) -> bool:
    """Return True if the elements that only ONNX Runtime gives otherwise are as few as those of one run alone.

    Where each run decides many elements otherwise, some are in none of the other runs: ONNX Runtime's rounding is one
    more draw. `moved`, of shape [runs, ...], tells what each run gives otherwise.
    """
    alone = np.count_nonzero(moved & (np.count_nonzero(moved, axis=0) == 1)) / len(moved)
    return bool(np.count_nonzero(found) <= alone + CHANCE * math.sqrt(alone))


def all_open(want: np.ndarray, got: np.ndarray, wrong: np.ndarray, roundings: np.ndarray | None) -> bool:
    """Return True if rounding decides more than MOST of the integers or booleans, and those that are `wrong` are no
    more, nor further off or elsewhere, than what one of the runs gives otherwise."""
    if not fit(want, roundings):
        return False
    assert roundings is not None
    moved = roundings != want
    if np.count_nonzero((roundings != roundings[0]).any(0)) <= MOST * want.size:
        return False  # what all runs give alike is not for rounding to decide
    wide = want.astype(np.float64)
    furthest = BEYOND * np.abs(roundings.astype(np.float64) - wide).max()
    is_near = np.abs(got.astype(np.float64) - wide)[wrong].max(initial=0.0) <= furthest
    return bool(is_near and _is_spread(wrong, moved) and unmoved_by_chance(wrong & ~moved.any(0), moved))


def _is_spread(wrong: np.ndarray, moved: np.ndarray) -> bool:
    """Return True if neither all elements nor a slice along an axis has many more that are `wrong` than a run moves."""
    axes = range(wrong.ndim)
    for kept in ((), *((axis,) for axis in axes)):
        others = tuple(axis for axis in axes if axis not in kept)
        most = np.count_nonzero(moved, axis=tuple(axis + 1 for axis in others)).max(0)
        if (np.count_nonzero(wrong, axis=others) > most + CHANCE * np.sqrt(most) + 1).any():
            return False
    return True
