"""Angles on the branch cut: pi and -pi are one angle, and a last digit decides which of the two is given.

The imaginary part of the lowest frequency of a real signal is 0, and kernels give it either sign. Such an element is
told by PyTorch itself, run again with other roundings: it must give both angles there. It is then compared with the
one that is nearer, in full; no element is left out. The same holds for what a model makes of angles, such as degrees,
parts of a turn, or the fraction of a number: where roundings take few elements from the least of all values to the
greatest, and most are between. Many would be a test that decides there, as of padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fxport.ort_runner.ties import MOST

NEAR = 1 / 128
"""The largest distance of an angle on the cut from pi, in turns. What it is turned by does not depend on that."""

BETWEEN = 0.5
"""The smallest part of an output that must be between its ends: numbers that are mostly one of two are no angles."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The two ends of a circle, which are one angle, and the largest part of an output that may lie there."""

    low: float
    high: float
    most: float = 1.0

    def is_low(self, values: np.ndarray) -> np.ndarray:
        """bool array: the elements at the lower end."""
        return np.abs(values - self.low) <= NEAR * self.turn

    def is_high(self, values: np.ndarray) -> np.ndarray:
        """bool array: the elements at the upper end."""
        return np.abs(values - self.high) <= NEAR * self.turn

    @property
    def turn(self) -> float:
        """The distance of the ends."""
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class Turned:
    """PyTorch's results with each angle on the cut on one side: that of ONNX Runtime, or PyTorch's first.

    `count` is the number of elements of `want` that were turned.
    """

    want: np.ndarray
    exact: np.ndarray | None
    roundings: np.ndarray
    count: int


def turned(want: np.ndarray, got: np.ndarray, exact: np.ndarray | None, roundings: np.ndarray | None) -> Turned | None:
    """Turn the angles on the branch cut by a whole turn, to the side on which ONNX Runtime has them.

    Args:
        want: PyTorch's result, floating-point numbers.
        got: ONNX Runtime's result.
        exact: PyTorch's result in float64.
        roundings: PyTorch's results with other roundings, of shape [runs, ...].

    Returns:
        The results, in which no element jumps from one end to the other; None where none does.
    """
    if roundings is None or roundings.dtype != want.dtype or roundings.shape[1:] != want.shape:
        return None
    found = (_turned(cut, want, got, exact, roundings) for cut in _cuts(want, roundings))
    return next((each for each in found if each is not None), None)


def _cuts(want: np.ndarray, roundings: np.ndarray) -> Iterator[Cut]:
    """Yield the ends of what may be angles: pi, and the least and the greatest of all values."""
    yield Cut(-np.pi, np.pi)
    values = np.concatenate([want[None], roundings]).astype(np.float64)
    finite = values[np.isfinite(values)]
    if finite.size and (found := Cut(float(finite.min()), float(finite.max()))).turn > 0:
        first = values[0]
        if np.mean(~found.is_low(first) & ~found.is_high(first)) >= BETWEEN:
            yield replace(found, most=MOST)


def _turned(
    cut: Cut, want: np.ndarray, got: np.ndarray, exact: np.ndarray | None, roundings: np.ndarray
) -> Turned | None:
    w, g, r = (array.astype(np.float64) for array in (want, got, roundings))
    at_ends = (cut.is_low(r) | cut.is_high(r)).all(0) & (cut.is_low(w) | cut.is_high(w))
    on_cut = at_ends & (cut.is_high(r) != cut.is_high(w)).any(0)
    if not on_cut.any() or np.count_nonzero(on_cut) > cut.most * on_cut.size:
        return None
    to_high = np.where(cut.is_low(g) | cut.is_high(g), cut.is_high(g), cut.is_high(w))

    def moved(values: np.ndarray) -> np.ndarray:
        wide = values.astype(np.float64)
        up, down = on_cut & to_high & cut.is_low(wide), on_cut & ~to_high & cut.is_high(wide)
        return (wide + cut.turn * (up.astype(np.float64) - down)).astype(values.dtype)

    other = None if exact is None else moved(exact)
    count = np.count_nonzero(on_cut & (to_high != cut.is_high(w)))
    return Turned(moved(want), other, moved(roundings), int(count))
