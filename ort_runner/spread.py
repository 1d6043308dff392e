"""The size of values that an error is compared with: their root mean square, or how far they are from their mean."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

SMALLEST_SLICE = 64
"""A slice of this many elements tells its error norm well enough to be judged alone."""

MOST_SLICED = 1 << 24
"""Beyond this many elements only the whole output is judged: a pass over all slices of each axis would cost seconds."""


def rms_of(values: np.ndarray, count: int) -> float:
    """The root mean square of values that are 0 but for `count` of them."""
    top = float(values.max())
    return top * float(np.sqrt(np.square(values / top).sum() / max(count, 1))) if top else 0.0


def spread_of(x: np.ndarray, scale: np.ndarray, judged: np.ndarray, count: int) -> float:
    """The root mean square of the values, or how far they are from their mean: of what stands on a large offset, that
    is all that a model says. One value everywhere, and few values, have no spread that tells."""
    norm = rms_of(scale, count)
    if count < SMALLEST_SLICE or not norm:
        return norm
    centred = np.where(judged, x / norm, 0.0)
    return norm * rms_of(np.where(judged, np.abs(centred - centred.sum() / count), 0.0), count) or norm


def largest_share(want: np.ndarray, got: np.ndarray) -> float:
    """The largest error of one element in parts of the values beside it: of all, and of each slice along an axis."""
    w, g = want.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(w) & np.isfinite(g)
    w, error = (
        np.where(finite, w, 0.0),
        np.where(finite, np.abs(np.where(finite, g, 0.0) - np.where(finite, w, 0.0)), 0.0),
    )
    return max(_share(w[part], error[part], finite[part]) for part in _slices(w.shape))


def _share(w: np.ndarray, error: np.ndarray, finite: np.ndarray) -> float:
    worst = float(error.max(initial=0.0))
    if not worst:
        return 0.0
    size = spread_of(w, np.abs(w), finite, int(np.count_nonzero(finite)))
    return worst / size if size else math.inf


def _slices(shape: tuple[int, ...]) -> Iterator[tuple[slice | int, ...]]:
    yield ()
    if math.prod(shape) > MOST_SLICED:
        return
    for axis, length in enumerate(shape):
        if length > 1 and math.prod(shape) // length >= SMALLEST_SLICE:
            yield from ((slice(None),) * axis + (index,) for index in range(length))
