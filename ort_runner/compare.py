"""Two arrays of equal type and shape → how far apart they are, and whether that is too far.

`want` is eager PyTorch, `got` is ONNX Runtime, `exact` is eager in float64 where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import ml_dtypes
import numpy as np

from fxport.ort_runner import phases, ties
from fxport.ort_runner.budget import MEAN_RATIO, MEAN_SHARE, RATIO, Budget, budget_of
from fxport.ort_runner.dtypes import FLOAT, element_of
from fxport.ort_runner.providers import PROVIDERS, Provider
from fxport.ort_runner.spread import MOST_SLICED, SMALLEST_SLICE, rms_of, spread_of
from fxport.ort_runner.systematic import shared_axes, systematic_ratio

CPU = PROVIDERS["cpu"]

# Elements smaller than the largest by this factor, and by its powers, are judged beside those of their own size.
SMALLER = 1024.0
# Values so far above all others, and so large, that they can only stand for "minus infinity" in a mask.
FAR, LARGE = 1024.0, 1.0e4
MOST_OF_ALL = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True)
class Gap:
    """Difference of one output from its reference.

    `ratio` is the error over its budget: above 1 is too much. `worst` is |got - want| at `index`, the element that
    exceeds its budget most; `relative` and `ulp` are the same in units of |want| and of want's last place. `rms` is
    ONNX Runtime's error against the float64 reference and `yardstick` eager's, None where there is no such reference.
    For integers and booleans, `cosine` is the share of equal elements. `top` is the share of rows along the last axis
    with equal argmax, as for logits. `share` and `own` are ONNX Runtime's and eager's error in parts of the values, or
    of the number of elements; `share` counts from the reference or from eager, whichever is further. `ceiling` is the
    largest `share` that is told from a fault. `ties` elements were left out, as PyTorch's own rounding decides them
    either way.
    """

    ratio: float
    worst: float = 0.0
    relative: float = 0.0
    ulp: float = 0.0
    index: tuple[int, ...] = ()
    got: float = 0.0
    want: float = 0.0
    rms: float = 0.0
    yardstick: float | None = None
    cosine: float = 1.0
    elements: int = 0
    top: float = 1.0
    share: float = 0.0
    own: float = 0.0
    ceiling: float = math.inf
    ties: int = 0

    @property
    def comparable(self) -> bool:
        """True if the error is small enough to be told from a fault. One outside its budget is a fault anyway."""
        return self.too_big or self.share <= self.ceiling

    @property
    def too_big(self) -> bool:
        """True if the output is outside its budget."""
        return self.ratio > 1.0


def compare(
    want: np.ndarray,
    got: np.ndarray,
    exact: np.ndarray | None = None,
    *,
    provider: Provider = CPU,
    atol: float | None = None,
    rtol: float | None = None,
    sums: float = 0.0,
    roundings: np.ndarray | None = None,
) -> Gap:
    """The gap between two arrays. Elements that are not finite in either are left out: see `disagreements`.

    `sums` widens the budget by the rounding units that long sums may cost (see `sums.allowance`). `roundings`, of shape
    [runs, ...], is eager with other roundings; it tells elements at a tie, which are left out (see `ties`).
    With `atol` or `rtol` the verdict is |got - want| <= atol + rtol * |want| instead of the error budget; integers
    and booleans must then be as near as that too. Raises ValueError if types or shapes differ.
    """
    if want.dtype != got.dtype or want.shape != got.shape or (exact is not None and exact.shape != want.shape):
        raise ValueError(f"cannot compare {want.dtype}{list(want.shape)} with {got.dtype}{list(got.shape)}")
    if want.size == 0:
        return Gap(0.0)
    if atol is not None or rtol is not None:
        return _by_tolerance(want, got, atol or 0.0, rtol or 0.0)
    if element_of(want.dtype).kind != FLOAT:
        return _by_count(want, got, exact, roundings)
    return _by_budget(
        want, got, exact, budget_of(want.dtype, provider, has_exact=exact is not None, sums=sums), roundings
    )


def disagreements(want: np.ndarray, got: np.ndarray, exact: np.ndarray | None = None) -> np.ndarray:
    """bool array: where one is NaN or infinite and the other is not the same.

    The `overflows` of eager are not among them. Where the truth is within a rounding of the largest number, either may
    overflow, but not where it is that number itself: a model has it from the limits of a type.
    """
    if element_of(want.dtype).kind != FLOAT:
        return np.zeros(want.shape, np.bool_)
    w, g = want.astype(np.float64), got.astype(np.float64)
    unequal = ~(np.isfinite(w) & np.isfinite(g)) & (w != g) & ~(np.isnan(w) & np.isnan(g))
    if not unequal.any():
        return unequal
    return unequal & ~overflows(want, got, exact) & ~_is_at_edge(w, g, w if exact is None else exact, want.dtype)


def overflows(want: np.ndarray, got: np.ndarray, exact: np.ndarray | None) -> np.ndarray:
    """bool array: where eager is NaN or infinite although the truth is not, nor near the largest number, and ONNX
    Runtime is not."""
    if exact is None or element_of(want.dtype).kind != FLOAT:
        return np.zeros(want.shape, np.bool_)
    w, g, truth = want.astype(np.float64), got.astype(np.float64), exact.astype(np.float64)
    return ~np.isfinite(w) & np.isfinite(g) & np.isfinite(truth) & ~_is_at_edge(w, g, truth, want.dtype)


def _is_at_edge(w: np.ndarray, g: np.ndarray, truth: np.ndarray, dtype: np.dtype) -> np.ndarray:
    info = ml_dtypes.finfo(dtype)
    near = np.isfinite(truth) & (np.abs(truth) >= float(info.max) * (1.0 - 4.0 * float(info.eps)))
    is_number = (np.abs(w) == float(info.max)) & np.isin(np.abs(truth), (float(info.max), MOST_OF_ALL))
    return near & (~is_number | (dtype == np.float64)) & ~np.isnan(w) & ~np.isnan(g) & (np.sign(w) == np.sign(g))


def _by_tolerance(want: np.ndarray, got: np.ndarray, atol: float, rtol: float) -> Gap:
    w, g = want.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(w) & np.isfinite(g)
    error = _distance(g, w, finite)
    limit = atol + rtol * np.where(finite, np.abs(w), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(error <= limit, np.where(limit > 0, error / limit, 0.0), error / np.maximum(limit, 1e-300))
    at = _argmax(ratios)
    return _gap(want, got, at, float(ratios[at]), rms_of(error, int(np.count_nonzero(finite))), None, finite)


def _by_count(want: np.ndarray, got: np.ndarray, exact: np.ndarray | None, roundings: np.ndarray | None) -> Gap:
    """Integers and booleans are right or wrong. Elements on which eager and the truth differ (a tie that rounding
    decides) are granted to either; RATIO times as many may differ, as far as that is not more than a quarter of all.
    Where more than `ties.MOST` differ from eager, that is not told from a fault."""
    differs = wrong = want != got
    granted = 0.5
    if exact is not None:
        wrong = wrong & (got != exact.astype(want.dtype))
        own = int(np.count_nonzero(want != exact.astype(want.dtype)))
        granted = max(granted, own, min(RATIO * own, want.size / 4))
    at_tie = ties.of_numbers(want, got, roundings) & differs
    wrong, differs = wrong & ~at_tie, differs & ~at_tie
    at = _argmax(wrong)
    count = int(np.count_nonzero(wrong))
    mine, theirs = int(got[at]), int(want[at])
    worst = float(abs(mine - theirs))
    relative = worst / abs(theirs) if theirs else worst
    same = 1.0 - count / want.size
    gap = Gap(
        float(count / granted), worst, relative, worst, at, float(mine), float(theirs), 0.0, None, same, want.size
    )
    shares = [np.count_nonzero(each) / want.size for each in (differs, want != (want if exact is None else exact))]
    if gap.too_big and shares[0] > ties.MOST and ties.all_open(want, got, wrong, roundings):
        gap = replace(gap, ratio=1.0)  # not comparable
    return replace(gap, ties=int(np.count_nonzero(at_tie)), share=shares[0], own=shares[1], ceiling=ties.MOST)


def _by_budget(
    want: np.ndarray, got: np.ndarray, exact: np.ndarray | None, budget: Budget, roundings: np.ndarray | None
) -> Gap:
    """The gap of floating-point numbers; without the elements at a tie, if only these are outside the budget. Angles on
    the branch cut are compared as angles (see `phases`)."""
    everything = np.ones(want.shape, np.bool_)
    gap, count = _within(want, got, exact, budget, everything), 0
    if (gap.too_big or not gap.comparable) and (other := phases.turned(want, got, exact, roundings)) is not None:
        want, exact, roundings, count = other.want, other.exact, other.roundings, other.count
        gap = _within(want, got, exact, budget, everything)
    if gap.too_big:
        at_tie = ties.of_reals(want, got, exact, budget, roundings)
        rest = _within(want, got, exact, budget, ~at_tie) if at_tie.any() else gap
        if not rest.too_big:
            return replace(rest, ties=count + int(np.count_nonzero(at_tie)))
        if want.dtype == np.float64:
            return replace(_beside_runs(want, got, exact, budget, roundings) or gap, ties=count)
        return gap
    return replace(gap, ties=count)


def _beside_runs(
    want: np.ndarray, got: np.ndarray, exact: np.ndarray | None, budget: Budget, roundings: np.ndarray | None
) -> Gap | None:
    """The gap with the furthest that other roundings give as the yardstick: as nothing is finer than float64, eager has
    no distance from the truth. None if it is too big, for all or for the elements that these runs do not move as far,
    unless those are as few as one run has alone of an output that is open; or if it is not comparable although few
    elements move, as these are at ties or wrong."""
    if roundings is None or not ties.fit(want, roundings):
        return None
    finite = np.isfinite(want) & np.isfinite(got)
    steps = np.nan_to_num(np.abs(roundings - want))
    furthest, moved = np.take_along_axis(roundings, steps.argmax(0)[None], 0)[0], steps.max(0)
    gap = _within(furthest, got, want, budget, np.ones(want.shape, np.bool_))
    unexplained = _distance(got, want, finite) > budget.slack * RATIO * moved
    size = spread_of(want, _distance(want, 0.0, finite), finite, int(np.count_nonzero(finite)))
    unit = budget.units * budget.epsilon * size
    is_open = np.count_nonzero(moved > unit) > ties.MOST * want.size
    if gap.too_big or not (gap.comparable or is_open):
        return None
    if not _within(want, got, exact, budget, unexplained).too_big:
        return gap
    is_near = _distance(got, want, unexplained).max() <= ties.BEYOND * moved.max()
    return gap if is_open and is_near and ties.unmoved_by_chance(unexplained, steps > unit) else None


def _within(want: np.ndarray, got: np.ndarray, exact: np.ndarray | None, budget: Budget, considered: np.ndarray) -> Gap:
    w, g = want.astype(np.float64), got.astype(np.float64)
    x = w if exact is None else exact.astype(np.float64)
    judged = considered & np.isfinite(w) & np.isfinite(g) & np.isfinite(x)
    error, own, scale = _distance(g, x, judged), _distance(w, x, judged), _distance(x, 0.0, judged)
    judged &= ~_mask_values(error, own, scale)
    if not judged.any():
        return Gap(0.0, elements=want.size)
    for array in (error, own, scale):
        array[~judged] = 0.0
    count = int(np.count_nonzero(judged))
    rms, yardstick = rms_of(error, count), None if exact is None else rms_of(own, count)
    norm = spread_of(x, scale, judged, count)
    furthest = max(rms, rms_of(_distance(g, w, judged), count))
    shares = [norm and each / norm if norm or not each else math.inf for each in (furthest, yardstick or 0.0)]
    unit = max(float(error.max()), float(scale.max())) or 1.0  # squares of any float64 are finite in these units
    for array in (error, own, scale):
        array /= unit
    budget = replace(budget, tiny=budget.tiny / unit)
    norm_of_all = rms_of(scale, count)
    ratio, at = max(_verdicts(error, own, scale, judged, budget, ()), key=_ratio)
    if ratio > 1.0 and (shared := shared_axes(np.where(g > x, error, -error))):
        ratio, at = max(_verdicts(error, own, scale, judged, budget, shared), key=_ratio)
    if exact is not None and ratio <= 1.0 and g.size <= MOST_SLICED:
        means = partial(systematic_ratio, g / unit, w / unit, x / unit)
        ratio = max(ratio, means(judged, budget.mean_limit(norm_of_all)))
        if ratio <= 1.0:
            verdicts = _verdicts_of_small(error, own, scale, budget, 1.0 / unit, partial(means, steady=True))
            small = max(verdicts, key=_ratio, default=(0.0, at))
            ratio, at = (ratio, at) if small[0] <= 1.0 else small
    gap = _gap(want, got, at, ratio, rms, yardstick, judged)
    if furthest <= budget.tiny * unit:
        return gap
    return replace(gap, share=shares[0], own=shares[1], ceiling=budget.ceiling)


Verdict = tuple[float, tuple[int, ...]]


def _verdicts(
    error: np.ndarray,
    own: np.ndarray,
    scale: np.ndarray,
    judged: np.ndarray,
    budget: Budget,
    shared: tuple[int, ...],
) -> Iterator[Verdict]:
    """(error over budget, the element to show) of the whole output, by largest error and by root mean square, and of
    the slices along each axis: scores beside pixel coordinates have a magnitude of their own.

    Along the axes in `shared` all elements have one error, so they count as one, as far as `Budget.systematic` goes.
    """
    top = np.asarray(scale.max())
    count = np.asarray(np.count_nonzero(judged))
    draws = count / math.prod(error.shape[axis] for axis in shared)
    limit_of = partial(budget.limit, one_sign=bool(shared))
    worst = _argmax(error)
    yield float(error[worst] / limit_of(own.max(), top, draws)), worst
    squares = [np.square(array) for array in (error, own, scale)]
    total = [np.sqrt(array.sum() / count) for array in squares]
    yield float(total[0] / limit_of(total[1], total[2], draws, ratio=MEAN_RATIO, share=MEAN_SHARE)), worst
    if error.size > MOST_SLICED:
        return
    for axis, length in enumerate(error.shape):
        if length < 2 or error.size // length < SMALLEST_SLICE:
            continue
        others = tuple(other for other in range(error.ndim) if other != axis)
        counts = np.count_nonzero(judged, axis=others)
        enough = counts >= SMALLEST_SLICE
        rms = [np.sqrt(array.sum(axis=others) / np.maximum(counts, 1)) for array in squares]
        # One rounding unit of the largest value is granted everywhere: saturated channels have no scale of their own.
        draws = counts / math.prod(error.shape[other] for other in shared if other != axis)
        limit = np.maximum(limit_of(rms[1], rms[2], draws), budget.epsilon * top)
        ratios = np.where(enough, rms[0] / limit, 0.0)
        chosen = int(ratios.argmax())
        inner = list(_argmax(error.take(chosen, axis=axis)))
        inner.insert(axis, chosen)
        yield float(ratios[chosen]), tuple(inner)


def _verdicts_of_small(
    error: np.ndarray,
    own: np.ndarray,
    scale: np.ndarray,
    budget: Budget,
    one: float,
    means: Callable[[np.ndarray, float], float],
) -> Iterator[Verdict]:
    """Yield the verdicts on elements that are so small beside the largest that its rounding unit hides all of them.

    They are judged by their own size where PyTorch has them exact: only what is no rounding at all is outside. `one` is
    the number 1, the natural size of sigmoids and the like, in the units of the arrays. `means` judges errors of one
    sign of some elements, above a floor.
    """
    limit = float(scale.max()) / SMALLER
    while np.count_nonzero((scale > 0.0) & (scale <= limit)) >= SMALLEST_SLICE:
        part = (scale > limit / SMALLER) & (scale <= limit)
        if np.count_nonzero(part) >= SMALLEST_SLICE:
            error_of, own_of, scale_of = (float(np.sqrt(np.square(each[part]).mean())) for each in (error, own, scale))
            floor, worst = budget.units * budget.epsilon * one, _argmax(np.where(part, error, 0.0))
            granted = max(RATIO * own_of, budget.ceiling * scale_of, floor) + budget.tiny
            yield error_of / granted, worst
            yield means(part, max(floor + budget.tiny, budget.mean_limit(scale_of))), worst
        limit /= SMALLER


def _ratio(verdict: Verdict) -> float:
    return verdict[0]


def _mask_values(error: np.ndarray, own: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """bool array: constants far above everything else that all three agree on, such as the float's minimum in a mask.

    As part of the output they would set its scale, and hide every other error.
    """
    top = scale.max()
    if top < LARGE:
        return np.zeros(scale.shape, np.bool_)
    constant = (scale == top) & (error == 0.0) & (own == 0.0)
    rest = scale[~constant]
    if np.count_nonzero(constant) < 2 or not rest.size or rest.max() * FAR >= top:
        return np.zeros(scale.shape, np.bool_)
    return constant


def _gap(
    want: np.ndarray,
    got: np.ndarray,
    at: tuple[int, ...],
    ratio: float,
    rms: float,
    yardstick: float | None,
    judged: np.ndarray,
) -> Gap:
    w, g = want.astype(np.float64), got.astype(np.float64)
    worst = abs(float(g[at]) - float(w[at])) if judged[at] else 0.0
    a, b = np.where(judged, w, 0.0).reshape(-1), np.where(judged, g, 0.0).reshape(-1)
    return Gap(
        ratio=ratio,
        worst=worst,
        relative=worst / abs(float(w[at])) if w[at] else worst,
        ulp=worst / _last_place(want.dtype, float(w[at])),
        index=at,
        got=float(g[at]),
        want=float(w[at]),
        rms=rms,
        yardstick=yardstick,
        cosine=_cosine(a, b),
        elements=want.size,
        top=float(np.mean(w.argmax(-1) == g.argmax(-1))) if w.ndim else 1.0,
    )


def _distance(one: np.ndarray, other: np.ndarray | float, judged: np.ndarray) -> np.ndarray:
    """|one - other| where judged, else 0."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(judged, np.abs(one - other), 0.0)


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    top_a, top_b = np.abs(a).max(), np.abs(b).max()
    if not top_a or not top_b:
        return 1.0 if top_a == top_b else 0.0
    a, b = a / top_a, b / top_b
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def _last_place(dtype: np.dtype, value: float) -> float:
    """The distance to the next number of that type at `value`."""
    if element_of(dtype).kind != FLOAT:
        return 1.0
    info = ml_dtypes.finfo(dtype)
    exponent = np.frexp(max(abs(value), float(info.tiny)))[1] - 1
    return float(info.eps) * 2.0 ** int(exponent)


def _argmax(values: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(values.argmax()), values.shape))
