"""Errors of one sign: a factor, an offset or a missing step that is wrong shifts all values the same way.

Rounding errors cancel in a mean over many elements, a fault does not, so a mean is judged by a bound of its own, far
below that of single errors. Three means are looked at: of the error itself (an offset), along the values (a factor),
and along their signs. The output is cut into parts. How much the means of the parts differ in eager PyTorch says how
much of its error is shared by the elements of a part, such as a row that one rounded mean was subtracted from.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

PARTS = 16
SMALLEST_PART = 64
"""Elements of a part; an output with fewer in `PARTS` parts is too small for means to tell more than single errors."""

OWN_RATIO = 8.0
"""Times eager PyTorch's own mean that is granted: as of the largest errors."""

SPREAD_RATIO = 4.0
"""Times the spread of eager's parts that is granted: 16 standard errors of their mean."""


def systematic_ratio(got: np.ndarray, want: np.ndarray, exact: np.ndarray, judged: np.ndarray, floor: float) -> float:
    """Return the largest mean error over its bound; 0.0 where there are too few elements.

    Args:
        got: ONNX Runtime's values, as float64.
        want: eager PyTorch's.
        exact: the truth, of the same shape.
        judged: bool, the elements that count.
        floor: the mean error that is granted whatever eager's is, in units of the values.
    """
    x = exact[judged]
    if x.size < PARTS * SMALLEST_PART:
        return 0.0
    error, own = got[judged] - x, want[judged] - x
    return max(_ratio(error, own, direction, floor) for direction in _directions(x))


def _directions(x: np.ndarray) -> Iterator[np.ndarray]:
    """Directions of errors with a root mean square of one: offset, factor, sign."""
    yield np.ones_like(x)
    for values in (x, np.sign(x)):
        size = float(np.sqrt(np.mean(np.square(values))))
        if size:
            yield values / size


def _ratio(error: np.ndarray, own: np.ndarray, direction: np.ndarray, floor: float) -> float:
    ours, theirs = _means(error * direction), _means(own * direction)
    granted = max(OWN_RATIO * abs(float(theirs.mean())), SPREAD_RATIO * float(theirs.std()), floor)
    return abs(float(ours.mean())) / granted if granted else 0.0


def _means(values: np.ndarray) -> np.ndarray:
    """The means of equal parts, in order; what is left over at the end is not looked at."""
    size = values.size // PARTS
    return values[: PARTS * size].reshape(PARTS, size).mean(1)
