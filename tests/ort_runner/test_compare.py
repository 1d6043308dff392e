"""The verdict: sound kernels are never flagged, and faults that are above rounding always are."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fxport.ort_runner import spread
from fxport.ort_runner.compare import compare, disagreements
from fxport.ort_runner.providers import PROVIDERS
from tests.ort_runner.models import floats, softmax

F32, F64, I64 = np.float32, np.float64, np.int64


def layer_norm(x: np.ndarray, epsilon: float = 1e-5) -> np.ndarray:
    """Over the last axis, in the type of x."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + x.dtype.type(epsilon))


def other_order(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """The same function with its sums in another order: a second sound kernel, for functions that commute with it."""
    return function(x[..., ::-1])[..., ::-1]


def gelu(x: np.ndarray) -> np.ndarray:
    """The tanh form, in the type of x."""
    return x * x.dtype.type(0.5) * (1 + np.tanh(x.dtype.type(0.7978845608) * (x + x.dtype.type(0.044715) * x * x * x)))


HEALTHY = {
    "softmax": softmax,
    "layer norm": layer_norm,
    "centred": lambda x: x - x.mean(-1, keepdims=True),
    "unit length": lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True)),
    "gelu": gelu,
    "identity": lambda x: x,
    "zero": lambda x: x * 0,
    "mean": lambda x: np.broadcast_to(x.mean(-1, keepdims=True), x.shape),
}


# Derandomized, because a budget is a matter of probability: one run in some thousands may be flagged by rights.
@settings(max_examples=500, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(HEALTHY)),
    st.integers(1, 5),
    st.integers(1, 300),
    st.sampled_from([1e-30, 1e-6, 1e-3, 1.0, 1e3]),
    st.floats(0, 100),
    st.integers(0, 2**32 - 1),
)
@example("centred", 1, 169, 1e-30, 70.0, 0)  # one mean, one rounding, 169 elements that share it
def test_a_sound_kernel_is_never_flagged(
    kind: str, rows: int, columns: int, scale: float, offset: float, seed: int
) -> None:
    function = HEALTHY[kind]
    x = floats(rows, columns, seed=seed, scale=scale) + F32(offset * scale)
    with np.errstate(all="ignore"):
        want, got, exact = function(x), other_order(function, x), function(x.astype(F64))
    want, got = want.astype(F32), got.astype(F32)
    assert not compare(want, got, exact).too_big
    assert not compare(got, want, exact).too_big


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]), st.integers(1, 500), st.integers(0, 99)
)
def test_a_rounding_of_a_small_type_is_never_flagged(name: str, count: int, seed: int) -> None:
    exact = np.random.default_rng(seed).standard_normal(count) * 3
    dtype = ml_dtypes.finfo(name).dtype
    want = exact.astype(dtype)
    got = (exact * (1 + 2.0**-20)).astype(dtype)  # some elements fall on the other side of a rounding
    assert not compare(want, got, exact).too_big
    assert not compare(want, got).too_big


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3])
def test_matrix_products_in_another_order_are_never_flagged(seed: int, scale: float) -> None:
    a, b, c = floats(8, 256, seed=seed, scale=scale), floats(256, 256, seed=seed + 1), floats(256, 32, seed=seed + 2)
    exact = a.astype(F64) @ b @ c
    shuffled = np.random.default_rng(seed).permutation(256)
    got = a[:, shuffled] @ b[shuffled] @ c
    assert not compare(a @ b @ c, got, exact).too_big
    assert not compare(a @ b @ c, a @ (b @ c), exact).too_big


X = floats(4, 64, 96, seed=7)
W, B = floats(96, 128, seed=8, scale=0.1), floats(128, seed=9, scale=0.02)


def linear(x: np.ndarray) -> np.ndarray:
    """x W + b in the type of x."""
    return x @ W.astype(x.dtype) + B.astype(x.dtype)


def half(x: np.ndarray) -> np.ndarray:
    """x W + b with the product in float16."""
    return (x.astype(np.float16) @ W.astype(np.float16)).astype(F32) + B


def one_wrong(x: np.ndarray) -> np.ndarray:
    """One element of 32,768 is off by a ten-thousandth."""
    y = linear(x)
    y[1, 2, 3] += 1e-4
    return y


def small_channel(x: np.ndarray) -> np.ndarray:
    """Channel 5 is off by a thousandth of itself, which is less than the rounding of the others."""
    y = x.copy()
    y[..., 5] *= x.dtype.type(1.001)
    return y


def scaled(x: np.ndarray) -> np.ndarray:
    """Channel 5 is a thousandth of the others."""
    y = x.copy()
    y[..., 5] *= x.dtype.type(1e-3)
    return y


FAULTS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]] = {
    "epsilon": (layer_norm, lambda x: layer_norm(x, 1e-6)),
    "dropped bias": (linear, lambda x: x @ W),
    "off-by-one slice": (lambda x: x[:, :32], lambda x: x[:, 1:33]),
    "wrong axis": (softmax, lambda x: np.swapaxes(softmax(np.swapaxes(x, -1, -2)), -1, -2)),
    "float16 accumulation": (linear, half),
    "transposed weight": (lambda x: x @ W[:, :96].astype(x.dtype), lambda x: x @ W[:, :96].T),
    "lost sign": (lambda x: x, abs),
    "one element": (linear, one_wrong),
    "small channel": (scaled, lambda x: small_channel(scaled(x))),
    "dropped row": (linear, lambda x: linear(np.concatenate([x[:, :-1], x[:, -2:-1]], 1))),
    "tanh for exact gelu": (gelu, lambda x: x / (1 + np.exp(-1.702 * x)).astype(F32)),
    "all zero": (linear, lambda x: linear(x) * 0),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e2])
def test_a_fault_is_flagged(name: str, scale: float) -> None:
    sound, faulty = FAULTS[name]
    x = X * F32(scale if name not in ("epsilon", "tanh for exact gelu", "dropped bias", "one element") else 1.0)
    want, got = sound(x), faulty(x).astype(F32)
    gap = compare(want, got, sound(x.astype(F64)))
    assert gap.too_big
    assert gap.worst > 0


def test_without_the_truth_gross_faults_are_flagged() -> None:
    for name in ("dropped bias", "off-by-one slice", "wrong axis", "transposed weight", "lost sign", "all zero"):
        sound, faulty = FAULTS[name]
        assert compare(sound(X), faulty(X)).too_big, name
    assert not compare(linear(X), linear(X.astype(F64)).astype(F32)).too_big


def test_a_mask_value_does_not_hide_the_rest() -> None:
    want = linear(X)
    want[:, :, ::3] = np.finfo(F32).min
    got = want.copy()
    got[0, 0, 1] += 1e-3
    exact = linear(X.astype(F64))
    exact[:, :, ::3] = np.finfo(F32).min
    assert not compare(want, want, exact).too_big
    assert compare(want, got, exact).too_big
    got = want.copy()
    got[0, 0, 0] = -1e9
    assert compare(want, got, exact).too_big


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, np.uint64, np.bool_, ml_dtypes.int4], ids=str)
def test_integers_and_booleans_are_exact(dtype: type) -> None:
    want = np.array([[0, 1], [1, 0]]).astype(dtype)
    got = np.array([[0, 1], [1, 1]]).astype(dtype)
    assert not compare(want, want).too_big
    gap = compare(want, got, want)
    assert gap.too_big
    assert gap.index == (1, 1)
    assert gap.worst == 1.0


def test_unsigned_differences_do_not_wrap() -> None:
    assert compare(np.array([3], np.uint8), np.array([5], np.uint8)).worst == 2.0
    assert compare(np.array([2**64 - 1], np.uint64), np.array([0], np.uint64)).worst == float(2**64 - 1)


def test_truncating_division_is_flagged_and_a_tie_is_not() -> None:
    x = np.arange(-8, 8)
    assert compare(x // 3, (x / 3).astype(I64), x // 3).too_big
    want, exact = np.array([4, 7, 1, 0]), np.array([4, 9, 1, 0])  # rounding decides the second for eager
    assert not compare(want, np.array([4, 9, 1, 0]), exact).too_big
    assert not compare(want, want, exact).too_big
    assert not compare(want, np.array([4, 7, 2, 0]), exact).too_big  # and so may it decide another
    assert compare(want, np.array([3, 8, 2, 0]) + 100, np.array([4, 7, 1, 0])).too_big


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 0)])
def test_empty_outputs_have_no_gap(shape: tuple[int, ...]) -> None:
    for dtype in (F32, I64, np.bool_, ml_dtypes.bfloat16):
        gap = compare(np.zeros(shape, dtype), np.zeros(shape, dtype))
        assert not gap.too_big
        assert not disagreements(np.zeros(shape, dtype), np.zeros(shape, dtype)).any()


def test_scalars() -> None:
    one = np.array(1.0, F32)
    assert not compare(one, np.nextafter(one, F32(2)), np.array(1.0)).too_big
    gap = compare(one, np.array(1.01, F32), np.array(1.0 + 1e-9))
    assert gap.too_big
    assert gap.index == ()
    assert gap.relative == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize(
    ("want", "got"),
    [
        (np.zeros((3, 1), F32), np.zeros(3, F32)),
        (np.zeros(3, F32), np.zeros(3, np.float16)),
        (np.zeros(3, np.int32), np.zeros(3, np.uint32)),
    ],
)
def test_what_would_broadcast_or_wrap_is_refused(want: np.ndarray, got: np.ndarray) -> None:
    with pytest.raises(ValueError, match="cannot compare"):
        compare(want, got)


NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("want", "got", "exact", "count"),
    [
        ([NAN, 1], [NAN, 1], [NAN, 1], 0),
        ([1, 1], [NAN, 1], [1, 1], 1),
        ([NAN, 1], [0, 1], [NAN, 1], 1),  # a lost NaN
        ([NAN, 1], [0, 1], None, 1),
        ([INF, 1], [INF, 1], [INF, 1], 0),
        ([INF, 1], [-INF, 1], [INF, 1], 1),
        ([INF, 1], [NAN, 1], [INF, 1], 1),
        ([-INF, INF], [-INF, INF], None, 0),
        ([INF, 1], [1e5, 1], [INF, 1], 1),
        ([NAN, 1], [2, 1], [2, 1], 0),  # eager overflowed on its way, the truth is finite
        ([INF, 1], [3e38, 1], [3e38, 1], 0),
        ([3.4028235e38, 1], [INF, 1], [3.4028235e38, 1], 0),  # at the edge of the type either may overflow
        ([1e30, 1], [INF, 1], [1e30, 1], 1),
        ([1, INF], [INF, INF], [1, INF], 1),
    ],
)
def test_nan_and_infinity_must_stand_at_the_same_elements(
    want: list[float], got: list[float], exact: list[float] | None, count: int
) -> None:
    truth = None if exact is None else np.array(exact)
    unequal = disagreements(np.array(want, F32), np.array(got, F32), truth)
    assert np.count_nonzero(unequal) == count


def test_elements_that_are_not_finite_are_left_out_of_the_gap() -> None:
    want, got = np.array([NAN, INF, 1, 2], F32), np.array([NAN, INF, 1, 2], F32)
    assert compare(want, got, want.astype(F64)).ratio == 0
    assert compare(want, np.array([NAN, INF, 1, 3], F32), want.astype(F64)).index == (3,)
    assert compare(np.full(3, NAN, F32), np.full(3, NAN, F32)).ratio == 0


def test_tolerances_replace_the_budget() -> None:
    want, got = np.array([1.0, 100.0], F32), np.array([1.0, 100.5], F32)
    assert compare(want, got).too_big
    assert not compare(want, got, rtol=0.01).too_big
    assert compare(want, got, atol=0.1).too_big
    assert not compare(want, got, atol=0.6).too_big
    assert compare(want, got, atol=0.0, rtol=0.0).too_big
    assert not compare(want, want, atol=0.0).too_big
    assert not compare(np.array([3]), np.array([4]), atol=1).too_big
    assert compare(want, got, atol=0.1).index == (1,)


def test_a_coarser_provider_gets_a_wider_budget() -> None:
    exact = linear(X.astype(F64))
    rounded = (X.view(np.uint32) & 0xFFFFE000).view(F32) @ (W.view(np.uint32) & 0xFFFFE000).view(F32) + B  # as TF32
    assert compare(linear(X), rounded, exact, provider=PROVIDERS["cpu"]).too_big
    assert compare(linear(X), rounded, exact, provider=PROVIDERS["cuda"]).too_big
    assert not compare(linear(X), rounded, exact, provider=PROVIDERS["tensorrt"]).too_big


def test_a_saturated_channel_is_no_fault() -> None:
    exact = X.astype(F64)
    exact[..., 5] = -1e-20  # a GELU far in the negative: eager rounds to the right number, another kernel to -1e-7
    want = exact.astype(F32)
    got = want.copy()
    got[..., 5] = -1e-7
    assert not compare(want, got, exact).too_big


@pytest.mark.parametrize(("factor", "too_big"), [(1.0, False), (2.0, False), (3.5, True)])
def test_eagers_own_error_is_the_yardstick(factor: float, too_big: bool) -> None:
    exact = X.astype(F64)
    noise = floats(*X.shape, seed=1).astype(F64) * 40 * np.finfo(F32).eps
    other = floats(*X.shape, seed=2).astype(F64) * 40 * np.finfo(F32).eps
    gap = compare((exact + noise).astype(F32), (exact + factor * other).astype(F32), exact)
    assert gap.too_big is too_big
    assert gap.yardstick == pytest.approx(40 * np.finfo(F32).eps, rel=0.1)


def test_long_sums_get_an_allowance() -> None:
    exact = floats(1000).astype(F64)
    got = (exact * (1 + 3e-6)).astype(F32)
    assert compare(exact.astype(F32), got, exact).too_big
    assert not compare(exact.astype(F32), got, exact, sums=50).too_big


def test_slices_of_many_elements_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the verdict nor by the largest share of one element."""
    want = np.concatenate([np.ones((1, 100)), np.full((99, 100), 1e6)]) * np.tile([1.0, -1.0], 50)
    got = want.copy()
    got[0, 0] += 1.0
    assert spread.largest_share(want, got) == pytest.approx(1.0)
    monkeypatch.setattr(spread, "MOST_SLICED", want.size - 1)
    assert spread.largest_share(want, got) == pytest.approx(1e-6, rel=0.01)


def test_the_gap_describes_the_worst_element() -> None:
    want = np.ones((4, 5), F32)
    got = want.copy()
    got[2, 3] = 1 + 64 * np.finfo(F32).eps
    gap = compare(want, got, want.astype(F64))
    assert gap.index == (2, 3)
    assert gap.ulp == pytest.approx(64)
    assert gap.got == pytest.approx(gap.want + gap.worst)
    assert gap.cosine == pytest.approx(1.0)
    assert gap.yardstick == 0.0
    assert compare(want, -want).cosine == pytest.approx(-1.0)


@given(st.floats(1e-300, 1e300), st.integers(0, 9))
@example(1e300, 0)
@example(1e-300, 0)
def test_no_magnitude_overflows(scale: float, seed: int) -> None:
    want = np.random.default_rng(seed).standard_normal(70) * scale
    assert not compare(want, want, want).too_big
    gap = compare(want, want * 1.001, want)
    assert gap.too_big
    assert np.isfinite([gap.ratio, gap.rms, gap.cosine, gap.ulp]).all()


SINE = np.sin(np.random.default_rng(0).standard_normal(4096))
LARGE = np.random.default_rng(1).standard_normal(4096)


@pytest.mark.parametrize("factor", [1e7, 1e8, 1e30])
@pytest.mark.parametrize("shape", [(8192,), (2, 64, 64), (128, 64)])
def test_small_elements_beside_large_ones_are_judged_by_their_own_size(factor: float, shape: tuple[int, ...]) -> None:
    def gap(small: np.ndarray) -> float:
        exact = np.concatenate([LARGE * factor, SINE]).reshape(shape)
        got = np.concatenate([LARGE * factor, small]).reshape(shape)
        return compare(exact.astype(F32), got.astype(F32), exact).ratio

    assert gap(SINE * (1 + 3e-7)) < 1
    assert gap(SINE * 1.03) > 1
    # An error of one sign is found below the ceiling, and no rounding on the scale of 1 is one.
    assert gap(SINE * 1.003) > 1
    assert gap(SINE + 1e-4) > 1
    assert gap(SINE * (1 + 0.003 * np.random.default_rng(2).choice([-1, 1], SINE.size))) < 1
    assert gap(SINE + 1e-6) < 1


def test_what_is_0_on_the_scale_of_1_may_be_0() -> None:
    exact = 1 / (1 + np.exp(-np.linspace(-30, 30, 4096)))
    assert compare(exact.astype(F32), np.where(exact < 1e-8, 0, exact).astype(F32), exact).ratio < 1


@pytest.mark.parametrize(("offset", "is_comparable"), [(0.0, True), (1e3, True), (1e5, True), (1e6, False)])
def test_on_an_offset_what_varies_is_compared(offset: float, is_comparable: bool) -> None:
    exact = SINE + offset
    assert compare(exact.astype(F32), exact.astype(F32), exact).comparable is is_comparable
    wrong = compare(exact.astype(F32), (SINE * 1.05 + offset).astype(F32), exact)
    assert wrong.too_big or not wrong.comparable
