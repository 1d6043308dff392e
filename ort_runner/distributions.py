"""Random outputs: two sets of runs → whether they are drawn from the same distribution.

A run is told by its statistics: mean, spread, quantiles, the share of zeros. Over several runs each statistic has a
mean and a variance of its own, and Welch's t-test compares those of the two sides. So it does not matter how the
elements of one run depend on each other: a single number added to all of them makes the mean of a run vary, and the
test is as coarse as that.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

LIMIT = 8.0
"""Standard errors by which a statistic may differ. With 16 runs of each side chance exceeds it once in 10⁶ times."""

ROUNDING = 1e-3
"""Part of the values' magnitude that any statistic may differ by: what does not vary at all is equal up to that."""

QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
STATISTICS = (
    "share of NaN and infinities",
    "share of zeros",
    "mean",
    "standard deviation",
    "kurtosis",
    *(f"{share:.0%} quantile" for share in QUANTILES),
)
SHARES = 2
"""The first so many statistics are shares: their magnitude is 1."""

CONSTANT = "variation from run to run"
MOST_ALIKE = 0.42
"""Share of PyTorch's runs that may be one and the same: of a smaller one, 16 equal runs come once in 10⁶ times."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The statistic that differs most: its mean over PyTorch's runs and over ONNX Runtime's, and `ratio`, the
    difference over what chance explains."""

    statistic: str
    want: float
    got: float
    ratio: float

    @property
    def too_big(self) -> bool:
        """True if chance does not explain the difference."""
        return self.ratio > 1.0


def compare_distributions(want: np.ndarray, got: np.ndarray) -> Difference:
    """Compare the distributions of two sets of runs: arrays of shape [runs, ...], of numbers or booleans. Those in
    `want` vary.
    """
    w, g = (each.reshape(len(each), -1).astype(np.float64) for each in (want, got))
    if _most_alike(g) == 1.0 and _most_alike(w) < MOST_ALIKE:
        return Difference(CONSTANT, float(np.nanmean(np.nanstd(w, axis=0))), 0.0, np.inf)
    one, other = (np.array([_statistics(run) for run in runs]) for runs in (w, g))
    error = np.sqrt(one.var(axis=0, ddof=1) / len(one) + other.var(axis=0, ddof=1) / len(other))
    scale = np.maximum(np.abs(one).max(axis=0), np.abs(other).max(axis=0))
    scale[:SHARES] = 1.0
    wanted, given = one.mean(axis=0), other.mean(axis=0)
    ratios = np.abs(wanted - given) / np.maximum(LIMIT * error + ROUNDING * scale, np.finfo(np.float64).tiny)
    worst = int(ratios.argmax())
    return Difference(STATISTICS[worst], float(wanted[worst]), float(given[worst]), float(ratios[worst]))


def _most_alike(runs: np.ndarray) -> float:
    """The share of the runs that occur most often."""
    return max(Counter(run.tobytes() for run in runs).values()) / len(runs)


def _statistics(run: np.ndarray) -> tuple[float, ...]:
    """STATISTICS of one run. Only the shares are those of all elements; the others are told by the finite ones."""
    finite = run[np.isfinite(run)]
    if not finite.size:
        return (1.0, *([0.0] * (len(STATISTICS) - 1)))
    mean, spread = float(finite.mean()), float(finite.std())
    kurtosis = float(np.mean(((finite - mean) / spread) ** 4)) if spread else 0.0
    shares = 1.0 - finite.size / run.size, float(np.mean(finite == 0.0))
    return (*shares, mean, spread, kurtosis, *np.quantile(finite, QUANTILES))
