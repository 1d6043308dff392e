"""An angle of pi or -pi is compared as an angle where PyTorch gives both; any other difference of an angle is found."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from fxport.ort_runner.compare import compare
from fxport.ort_runner.judging import is_open

RUNS, SIZE, CUT = 8, 200, 100
"""Half of the elements are on the cut."""

GENERATOR = np.random.default_rng(0)
EXACT = np.concatenate([np.full(CUT, np.pi), GENERATOR.uniform(-3.0, 3.0, SIZE - CUT)])
TURN = 2 * np.pi


def runs_of(want: np.ndarray, cut: int = CUT) -> np.ndarray:
    """Runs of which every other has the first elements on the other side of the cut."""
    runs = np.repeat(want[None].astype(np.float64), RUNS, 0)
    runs *= 1 + GENERATOR.integers(-1, 2, runs.shape) * float(ml_dtypes.finfo(want.dtype).eps) / 2
    runs[1::2, :cut] *= -1
    return runs.astype(want.dtype)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("exact", [EXACT, None])
@pytest.mark.parametrize("side", [1, -1])
def test_an_angle_on_the_other_side_of_the_cut_is_the_same(exact: np.ndarray | None, dtype: type, side: int) -> None:
    want = EXACT.astype(dtype)
    want[:CUT] *= dtype(side)
    got = want.copy()
    got[: CUT // 2] *= dtype(-1)
    assert compare(want, got, EXACT * np.where(np.arange(SIZE) < CUT, side, 1)).too_big
    gap = compare(want, got, exact, roundings=runs_of(want))
    assert not gap.too_big
    assert gap.comparable
    assert gap.ties == CUT // 2
    assert is_open(want, got, runs_of(want))


def fault(of: slice, change: float, factor: float = 1.0) -> np.ndarray:
    got = EXACT.astype(np.float32)
    got[: CUT // 2] *= -1  # what is explained hides nothing
    got[of] = got[of] * factor + np.float32(change)
    return got


@pytest.mark.parametrize(
    "got",
    [
        fault(slice(None), TURN / 3),  # a phase that is off everywhere
        fault(slice(0, 1), TURN / 3),  # at one element on the cut
        fault(slice(CUT, CUT + 1), TURN / 3),  # at one that is not
        fault(slice(CUT, None), 0.0, -1.0),  # the sign of all that are not on the cut
        fault(slice(CUT, CUT + 1), 0.0, -1.0),
        fault(slice(CUT, CUT + 1), TURN),  # a turn too much, which no angle of PyTorch has
        fault(slice(0, 1), -TURN),
        fault(slice(0, 1), 2 * TURN),
        fault(slice(0, CUT), 1e-3),  # a small error on the cut
        fault(slice(0, 1), 1e-3),
        fault(slice(0, CUT), 0.0, 0.0),  # 0 in place of pi
    ],
)
@pytest.mark.parametrize("exact", [EXACT, None])
def test_a_fault_of_an_angle_is_found(got: np.ndarray, exact: np.ndarray | None) -> None:
    want = EXACT.astype(np.float32)
    gap = compare(want, got, exact, roundings=runs_of(want))
    assert gap.too_big
    assert not is_open(want, got, runs_of(want))


def test_the_sign_of_an_angle_that_pytorch_has_on_one_side_counts() -> None:
    want = EXACT.astype(np.float32)
    got = fault(slice(0, 0), 0.0)
    assert compare(want, got, EXACT, roundings=runs_of(want, cut=0)).too_big
    assert compare(want, got, EXACT, roundings=runs_of(want, cut=CUT // 2 - 1)).too_big


FEW = 12
"""Below one in sixteen."""

SCALES = {"degrees": (180 / np.pi, 0.0), "parts of a turn": (1 / TURN, 0.5), "negative": (-0.5, 3.0)}


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("with_exact", [True, False])
def test_what_is_made_of_angles_is_compared_as_they_are(name: str, *, with_exact: bool) -> None:
    factor, offset = SCALES[name]

    def scaled(values: np.ndarray) -> np.ndarray:
        """With few on the cut: many would be those of a test."""
        few = values.astype(np.float64)
        few[..., FEW:CUT] = np.linspace(-3, 3, CUT - FEW)
        return (few * factor + offset).astype(values.dtype)

    want, exact = scaled(EXACT.astype(np.float32)), scaled(EXACT) if with_exact else None
    runs = scaled(runs_of(EXACT.astype(np.float32)))
    sound = scaled(fault(slice(0, 0), 0.0))
    gap = compare(want, sound, exact, roundings=runs)
    assert not gap.too_big
    assert gap.ties == FEW
    assert is_open(want, sound, runs)
    for of, change, sign in (
        (slice(0, 1), 1e-2, 1.0),
        (slice(0, 1), 2 * TURN, 1.0),
        (slice(CUT, CUT + 1), 0.0, -1.0),
        (slice(CUT, None), TURN / 3, 1.0),
        (slice(0, CUT), 0.0, 0.0),
    ):
        got = scaled(fault(of, change, sign))
        assert compare(want, got, exact, roundings=runs).too_big
        assert not is_open(want, got, runs)


def test_a_test_that_decides_of_many_elements_makes_no_angles() -> None:
    """Of padding, where a factor is 1 but for its last digit: `>` in the place of `>=` gives the other value."""
    want = np.concatenate([np.ones(CUT), GENERATOR.uniform(-0.9, 0.9, SIZE - CUT)]).astype(np.float32)
    got = np.where(np.arange(SIZE) < CUT, -want, want)
    assert compare(want, got, want.astype(np.float64), roundings=runs_of(want)).too_big


def test_signs_are_no_angles() -> None:
    """All of them are at one of two ends, and a sign that is lost is a fault."""
    want = np.where(np.arange(SIZE) % 2, 1, -1).astype(np.float32)
    assert compare(want, -want, None, roundings=runs_of(want)).too_big
