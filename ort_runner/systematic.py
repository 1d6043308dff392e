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
"""Times the spread of the parts that is granted: 16 standard errors of their mean."""


def systematic_ratio(
    got: np.ndarray, want: np.ndarray, exact: np.ndarray, judged: np.ndarray, floor: float, *, steady: bool = False
) -> float:
    """Return the largest mean error over its bound; 0.0 where there are too few elements.

    Args:
        got: ONNX Runtime's values, as float64.
        want: eager PyTorch's.
        exact: the truth, of the same shape.
        judged: bool, the elements that count.
        floor: the mean error that is granted whatever eager's is, in units of the values.
        steady: the parts of ONNX Runtime's error must agree, too: one whose sign changes is no error of one sign.
    """
    x = exact[judged]
    if x.size < PARTS * SMALLEST_PART:
        return 0.0
    error, own = got[judged] - x, want[judged] - x
    return max(_ratio(error, own, direction, floor, steady) for direction in _directions(x))


def _directions(x: np.ndarray) -> Iterator[np.ndarray]:
    """Directions of errors with a root mean square of one: offset, factor, sign."""
    yield np.ones_like(x)
    for values in (x, np.sign(x)):
        size = float(np.sqrt(np.mean(np.square(values))))
        if size:
            yield values / size


def _ratio(error: np.ndarray, own: np.ndarray, direction: np.ndarray, floor: float, steady: bool) -> float:
    ours, theirs = _means(error * direction), _means(own * direction)
    granted = max(OWN_RATIO * abs(float(theirs.mean())), SPREAD_RATIO * float(theirs.std()), floor)
    granted = max(granted, SPREAD_RATIO * float(ours.std())) if steady else granted
    return abs(float(ours.mean())) / granted if granted else 0.0


def _means(values: np.ndarray) -> np.ndarray:
    """The means of equal parts, in order; what is left over at the end is not looked at."""
    size = values.size // PARTS
    return values[: PARTS * size].reshape(PARTS, size).mean(1)


def shared_axes(signed: np.ndarray) -> tuple[int, ...]:
    """Return the axes along which the error is one and the same, as that of a mean subtracted from a whole row:
    those over which an average keeps more than half of the error's energy."""
    shared = []
    energy = float(np.square(signed).mean())
    for axis, length in enumerate(signed.shape):
        average = signed.mean(axis=axis, keepdims=True)
        kept = float(np.square(average).mean())
        if length > 1 and kept > 0.5 * energy:
            shared.append(axis)
            signed, energy = average, kept
    return tuple(shared)
