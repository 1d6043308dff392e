"""Angles on the branch cut: pi and -pi are one angle, and a last digit decides which of the two is given.

The imaginary part of the lowest frequency of a real signal is 0, and kernels give it either sign. Such an element is
told by PyTorch itself, run again with other roundings: it must give both angles there. It is then compared with the
one that is nearer, in full; no element is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TURN = 2.0 * np.pi

NEAR = np.pi / 64
"""The largest distance from pi of an angle on the cut. What an angle is turned by does not depend on it."""


@dataclass(frozen=True, slots=True)
class Turned:
    """PyTorch's results with all angles on the cut on one side: that of ONNX Runtime, or PyTorch's first.

    `count` is the number of elements of `want` that were turned.
    """

    want: np.ndarray
    exact: np.ndarray | None
    roundings: np.ndarray
    count: int


def turned(want: np.ndarray, got: np.ndarray, exact: np.ndarray | None, roundings: np.ndarray | None) -> Turned | None:
    """Turn the angles on the branch cut by 2 pi, to the side on which ONNX Runtime has them if it has them there.

    Args:
        want: PyTorch's result, floating-point numbers.
        got: ONNX Runtime's result.
        exact: PyTorch's result in float64.
        roundings: PyTorch's results with other roundings, of shape [runs, ...].

    Returns:
        The results, in which no element jumps from pi to -pi; None where none does.
    """
    if roundings is None or roundings.dtype != want.dtype or roundings.shape[1:] != want.shape:
        return None
    w, g, r = (array.astype(np.float64) for array in (want, got, roundings))
    on_cut = (np.sign(r) != np.sign(w)).any(0) & _is_at_pi(r).all(0) & _is_at_pi(w)
    if not on_cut.any():
        return None
    side = np.sign(np.where(_is_at_pi(g), g, w))

    def moved(values: np.ndarray) -> np.ndarray:
        wide = values.astype(np.float64)
        opposite = on_cut & _is_at_pi(wide) & (np.sign(wide) != side)
        return np.where(opposite, wide + TURN * side, wide).astype(values.dtype)

    other = None if exact is None else moved(exact)
    return Turned(moved(want), other, moved(roundings), int(np.count_nonzero(on_cut & (np.sign(w) != side))))


def _is_at_pi(angles: np.ndarray) -> np.ndarray:
    return np.abs(np.abs(angles) - np.pi) <= NEAR
