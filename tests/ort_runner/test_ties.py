"""Elements at a tie are left out of a comparison; whatever PyTorch's own rounding does not move is judged."""

from __future__ import annotations

import numpy as np
import pytest

from fxport.ort_runner.compare import compare

RUNS, SIZE = 8, 1600
GENERATOR = np.random.default_rng(0)
EXACT = GENERATOR.standard_normal(SIZE)
WANT = EXACT.astype(np.float32)


def rounded(ties: int, step: float = 0.5) -> np.ndarray:
    """Runs in which the first elements go one step up or not, and all others move by their last place."""
    runs = np.repeat(WANT[None], RUNS, 0) * (1 + GENERATOR.integers(-1, 2, (RUNS, SIZE)) * 2.0**-24)
    runs[1::2, :ties] += step
    return runs.astype(np.float32)


def with_error(count: int, error: float, start: int = 0) -> np.ndarray:
    got = WANT.copy()
    got[start : start + count] += error
    return got


@pytest.mark.parametrize("exact", [EXACT, None])
def test_a_step_that_pytorch_takes_as_well_is_a_tie(exact: np.ndarray | None) -> None:
    got = with_error(3, 0.5)
    assert compare(WANT, got, exact).too_big
    gap = compare(WANT, got, exact, roundings=rounded(5))
    assert not gap.too_big
    assert gap.ties == 3, "the others are equal"
    assert gap.elements == SIZE


def test_ties_of_which_few_differ_are_few() -> None:
    gap = compare(WANT, with_error(SIZE // 32, 0.5), EXACT, roundings=rounded(SIZE // 4))
    assert not gap.too_big
    assert gap.ties == SIZE // 32


def test_what_is_within_its_budget_has_no_ties() -> None:
    assert compare(WANT, WANT, EXACT, roundings=rounded(5)).ties == 0


@pytest.mark.parametrize(
    ("got", "ties"),
    [
        (with_error(1, 0.5, start=5), 5),  # a step at an element that is none
        (with_error(3, 1.5), 5),  # a larger step than PyTorch's
        (with_error(3, -1.5), 5),
        (with_error(SIZE, 1e-4), 5),  # a small error everywhere
        (with_error(SIZE // 8, 0.5), SIZE // 8),  # too many
    ],
)
def test_what_no_rounding_explains_is_outside_the_budget(got: np.ndarray, ties: int) -> None:
    gap = compare(WANT, got, EXACT, roundings=rounded(ties))
    assert gap.too_big
    assert gap.ties == 0


def of_chance(count: int, *, chance: float = 0.5) -> np.ndarray:
    """Runs in which each of the first elements goes up or not, by itself."""
    runs = rounded(0)
    runs[:, :count] += GENERATOR.random((RUNS, count)) < chance
    return runs


def test_ties_that_are_all_decided_otherwise_are_no_chance() -> None:
    """As `>` for `>=` decides: PyTorch's runs take each side in half of the elements."""
    runs = of_chance(90)
    assert compare(WANT, with_error(90, 1.0), EXACT, roundings=runs).too_big
    assert not compare(WANT, with_error(45, 1.0), EXACT, roundings=runs).too_big
    codes, moved = np.zeros(SIZE, np.int64), (runs - rounded(0) > 0.5).astype(np.int64)
    other = np.arange(SIZE) < 90
    assert compare(codes, other.astype(np.int64), roundings=moved).too_big
    assert not compare(codes, (other & (np.arange(SIZE) % 2 == 0)).astype(np.int64), roundings=moved).too_big


def test_codes_of_which_most_are_at_ties_are_judged() -> None:
    """A row of codes that is one too high, where each code goes up in half of PyTorch's runs."""
    want = GENERATOR.integers(0, 200, (16, 64))
    runs = want + GENERATOR.integers(0, 2, (RUNS, 16, 64))
    got = want.copy()
    got[5] += 1
    gap = compare(want, got, roundings=runs)
    assert gap.too_big
    assert gap.ties == 0


def test_an_index_that_pytorch_gives_as_well_is_a_tie() -> None:
    want = np.arange(100, dtype=np.int64)
    runs = np.repeat(want[None], RUNS, 0)
    runs[3, :4] = 50
    got = want.copy()
    got[:4] = 50
    assert compare(want, got).too_big
    gap = compare(want, got, roundings=runs)
    assert not gap.too_big
    assert gap.ties == 4
    got[0] = 51  # which no run gave
    got[1] = 51
    assert compare(want, got, roundings=runs).too_big


def test_tolerances_of_the_user_know_no_ties() -> None:
    assert compare(WANT, with_error(3, 0.5), EXACT, atol=0.1, roundings=rounded(5)).too_big


def test_roundings_of_another_shape_tell_nothing() -> None:
    assert compare(WANT, with_error(3, 0.5), EXACT, roundings=rounded(5)[:, :-1]).too_big


def of_float64(*parts: tuple[int, float]) -> np.ndarray:
    """Runs in which so many of the first elements, from the front, move by as much as these parts say."""
    runs, start = np.repeat(EXACT[None], RUNS, 0), 0
    generator = np.random.default_rng(1)
    for count, step in parts:
        runs[:, start : start + count] += generator.standard_normal((RUNS, count)) * step
        start += count
    return runs


def in_float64(start: int, count: int, error: float) -> np.ndarray:
    got = EXACT.copy()
    got[start : start + count] += error
    return got


TIE, NOISE = of_float64((1, 1.0)), of_float64((SIZE // 2, 1e-7), (SIZE // 2, 1e-16))


@pytest.mark.parametrize(
    ("got", "runs"),
    [
        (in_float64(100, 1, 0.5), TIE),
        (in_float64(SIZE - 5, 1, 1e-7), NOISE),
        (in_float64(SIZE // 2, SIZE // 2, 1e-9), NOISE),
        (in_float64(SIZE // 2, 1, 0.5), NOISE),
        (in_float64(0, 1, 20.0), TIE),
        (EXACT * (1 + 1e-9), TIE),
        (in_float64(0, 1, 6.0), of_float64((1, 1.0), (SIZE - 1, 1e-16))),
    ],
)
def test_elements_that_move_do_not_pay_for_others_in_float64(got: np.ndarray, runs: np.ndarray) -> None:
    gap = compare(EXACT, got, EXACT, roundings=runs)
    assert gap.too_big
    assert gap.ties == 0


def test_what_each_element_moves_is_its_yardstick_in_float64() -> None:
    assert compare(EXACT, NOISE[0], EXACT).too_big
    assert not compare(EXACT, NOISE[0], EXACT, roundings=NOISE[1:]).too_big


def test_what_rounding_leaves_open_in_float64_is_not_comparable() -> None:
    runs = of_float64((SIZE, 1e-3))
    gap = compare(EXACT, runs[0], EXACT, roundings=runs[1:])
    assert not gap.too_big
    assert not gap.comparable


CODES = np.arange(1, 65, dtype=np.float64)
STEPS = np.random.default_rng(2).choice([-1.0, 1.0], (RUNS + 1, CODES.size)) * np.tri(RUNS + 1, CODES.size, CODES.size)
STEPS[:, : RUNS + 1] *= np.eye(RUNS + 1)
"""Runs that give most whole numbers as one less or one more, and one of the first in each run alone."""


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_of_elements_that_rounding_decides_each_run_moves_some_alone(dtype: type) -> None:
    *runs, got = (CODES + STEPS).astype(dtype)
    gap = compare(CODES.astype(dtype), got, CODES, roundings=np.stack(runs))
    assert not gap.too_big
    assert not gap.comparable


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_elements_that_no_rounding_moves_are_judged_beside_those_that_it_moves(dtype: type) -> None:
    runs = CODES + STEPS[:RUNS]
    runs[:, -8:] = CODES[-8:]
    got = CODES + STEPS[RUNS]
    got[-8:] = CODES[-8:] + 1
    assert compare(CODES.astype(dtype), got.astype(dtype), CODES, roundings=runs.astype(dtype)).too_big


def test_rows_of_codes_that_are_one_too_high_are_no_chance() -> None:
    want = GENERATOR.integers(0, 200, (16, 64))
    runs = want + GENERATOR.integers(0, 2, (RUNS, 16, 64))
    got = want.copy()
    got[5:9] += 1
    assert compare(want, got, roundings=runs).too_big
