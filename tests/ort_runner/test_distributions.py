"""Random outputs: the same distribution is never flagged, another one is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fxport.ort_runner.distributions import CONSTANT, compare_distributions

RUNS = 16
Draw = Callable[[np.random.Generator], np.ndarray]


def dropout(p: float) -> Draw:
    return lambda generator: np.where(generator.random((8, 64)) < p, 0.0, 1 / (1 - p))


def normal(mean: float, spread: float) -> Draw:
    return lambda generator: generator.normal(mean, spread, (8, 64))


def shared(spread: float) -> Draw:
    """One number, added to all elements."""
    return lambda generator: np.arange(512.0) + generator.normal(0.0, spread)


def whole(high: int) -> Draw:
    return lambda generator: generator.integers(0, high, 512)


def single(scale: float) -> Draw:
    return lambda generator: np.asarray(generator.exponential(scale))


def with_nan(share: float) -> Draw:
    return lambda generator: np.where(generator.random(512) < share, np.nan, 1.0)


def drawn(draw: Draw, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.stack([draw(generator) for _ in range(RUNS)])


SAME: dict[str, Draw] = {
    "dropout": dropout(0.3),
    "normal": normal(5.0, 2.0),
    "shared": shared(1.0),
    "whole": whole(10),
    "single": single(1.0),
    "nan": with_nan(0.01),
    "never zero but once": lambda generator: np.where(generator.random(512) < 2e-4, 0.0, 1.0),
}


@pytest.mark.parametrize("name", SAME)
def test_equal_distributions_are_not_flagged(name: str) -> None:
    ratios = [compare_distributions(drawn(SAME[name], 2 * s), drawn(SAME[name], 2 * s + 1)).ratio for s in range(60)]
    assert max(ratios) < 1.0


@pytest.mark.parametrize(
    ("want", "got", "statistic"),
    [
        (dropout(0.3), dropout(0.4), None),
        (dropout(0.3), lambda generator: dropout(0.3)(generator) * 0.7, None),
        (normal(0.0, 1.0), normal(0.5, 1.0), None),
        (normal(0.0, 1.0), normal(0.0, 1.3), None),
        (shared(1.0), lambda generator: np.arange(512.0), CONSTANT),
        (whole(10), whole(11), None),
        (with_nan(0.0), with_nan(0.1), "share of NaN and infinities"),
        (lambda generator: generator.normal(0, 1, 512), lambda generator: generator.uniform(-1.7, 1.7, 512), None),
    ],
)
def test_other_distributions_are_flagged(want: Draw, got: Draw, statistic: str | None) -> None:
    for seed in range(20):
        found = compare_distributions(drawn(want, 2 * seed), drawn(got, 2 * seed + 1))
        assert found.too_big
        assert statistic in (None, found.statistic)
