"""One run judged: by the budget, and where it is outside, by what PyTorch itself leaves open.

Rounding is open, and so is which of equal elements some operators take. PyTorch is run again with these otherwise, and
what it gives then is right as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fxport.diagnostics import Level, rules
from fxport.ort_runner.budget import RATIO
from fxport.ort_runner.compare import compare
from fxport.ort_runner.dtypes import FLOAT, element_of
from fxport.ort_runner.phases import turned
from fxport.ort_runner.samples import Arrays, Samples
from fxport.ort_runner.session import Opened
from fxport.ort_runner.spread import largest_share
from fxport.ort_runner.ties import MOST
from fxport.ort_runner.validations import VALIDATIONS, Report, Run, run_of

if TYPE_CHECKING:
    from fxport.ort_runner.inexact_kernels import Exact

LOCATABLE = frozenset(
    {rules.OUTPUT_DRIFT, rules.NON_FINITE_OUTPUT, rules.OUTPUT_SHAPE_MISMATCH, rules.OUTPUT_TYPE_MISMATCH}
)
"""Rules about an output that is not PyTorch's: something inside of the model made it so."""

Against = Callable[..., Run]
"""The run of a sample, judged as far as it is known what PyTorch and the kernels leave open."""

OF_INEXACT_INPUTS = frozenset({rules.NOT_COMPARABLE, rules.TIES_LEFT_OUT, rules.INEXACT_KERNELS})
"""Rules about how exact PyTorch or a kernel is: on inputs that no user gave, they say nothing of interest."""


SUMS_OF_MADE = 64.0
"""Rounding units of float32 for values of ours. Of multiples of one half, a running total rounds to one side: the
variance of 4,096 of them is 20 units off, and PyTorch's is exact by luck. Faults that they are for are larger."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A run and what is to be reported of it. With `is_exact`, what is wrong is that without the errors of
    inexact kernels, too."""

    run: Run
    reports: list[Report]
    is_exact: bool = False


def compared(
    samples: Samples,
    outputs: Arrays,
    opened: Opened,
    sums: Callable[[], float],
    *,
    atol: float | None = None,
    rtol: float | None = None,
    draws: Mapping[str, np.ndarray] | None = None,
    without_errors: Callable[[], Exact | None] = lambda: None,
) -> Compared:
    """Compare the outputs of a run with PyTorch's.

    Args:
        samples: the inputs, and what PyTorch made of them.
        outputs: what ONNX Runtime made of them.
        opened: the session.
        sums: gives the allowance for long sums, which is asked for only where something is outside the budget.
        atol: as in `compare`, like `rtol`.
        rtol: see there.
        draws: ONNX Runtime's random outputs over several runs.
        without_errors: runs the model without the errors of inexact kernels; asked for where something differs.
    """
    against = partial(run_of, outputs=outputs, opened=opened, atol=atol, rtol=rtol, draws=draws)
    run, roundings = against(samples), None
    exact: Exact | None = None
    names: dict[str, None] = {}
    open_: list[str] = []
    if _is_doubtful(run):
        allowed = sums() + (SUMS_OF_MADE if samples.is_made else 0.0)
        against = partial(against, sums=allowed)
        run = against(samples)
        drifting = _drifting(run) if atol is None and rtol is None else []
        exact = without_errors() if drifting else None
        provider = opened.choice.provider
        open_ = [name for name in drifting if exact and exact.explains(name, outputs[name], provider, allowed)]
        run, against, names = _exactly(run, against, samples, open_, exact)
        if samples.roundings and _is_doubtful(run):
            roundings = samples.roundings()
            against = partial(against, roundings=roundings)
            run = against(samples)
            left = [name for name in open_ if name not in names and run.gaps[name].too_big]
            run, against, more = _exactly(run, against, samples, left, exact)
            names |= more
    of_kernels = {name: _of_kernels(outputs[name], name, exact, run) for name in names if exact}
    reports = _reports(run)
    if _lost(reports) and samples.choices:
        for which, want, truth in samples.choices():
            other = against(replace(samples, outputs=want, exact=truth))
            if not _lost(_reports(other)):
                equal = [(rules.EQUAL_ELEMENTS, {"output": name, "which": which}) for name in _lost(reports)]
                run, reports = other, [*_reports(other), *equal]
                break
    lost = _lost(reports)
    reports = [*(report for name, report in of_kernels.items() if name not in lost), *reports]
    if samples.is_made:
        run, reports = _of_made(run, reports, roundings)
    return Compared(run, reports, is_exact=bool(open_))


def _drifting(run: Run) -> list[str]:
    """The outputs of which the values are wrong, if nothing but the values of some outputs is."""
    reports = _reports(run)
    if {rule for rule, _ in reports} & LOCATABLE != {rules.OUTPUT_DRIFT}:
        return []
    return [name for name in _lost(reports) if run.gaps[name].too_big]


def _exactly(
    run: Run, against: Against, samples: Samples, names: Collection[str], exact: Exact | None
) -> tuple[Run, Against, dict[str, None]]:
    """Judge outputs as they are without the errors of kernels, as far as they are right then. Returns their names."""
    if exact is None or not names:
        return run, against, {}

    def with_exact(held: Collection[str]) -> Against:
        return partial(against, outputs={**run.outputs, **{name: exact.outputs[name] for name in held}})

    other = with_exact(names)(samples)
    right = [name for name in names if not other.gaps[name].too_big]
    if not right:
        return run, against, {}
    against = with_exact(right)
    return against(samples), against, dict.fromkeys(right)


def _of_kernels(got: np.ndarray, name: str, exact: Exact, run: Run) -> Report:
    """Tell that kernels are inexact for an output: a doubt where the error can be seen in the values."""
    gap = compare(exact.outputs[name], got, exact.outputs[name].astype(np.float64), provider=run.provider)
    share = max(gap.share, largest_share(exact.outputs[name], got))
    facts = {"output": name, "operators": exact.operators, "provider": run.provider.name, "share": share}
    level = rules.INEXACT_KERNELS.level if share <= gap.ceiling else Level.WARNING
    return rules.INEXACT_KERNELS, {**facts, "worst": gap.worst, "got": gap.got, "want": gap.want, "level": level}


def _of_made(run: Run, reports: list[Report], roundings: Arrays | None) -> tuple[Run, list[Report]]:
    """Leave out what is no difference on values that nobody gave: outputs of which rounding decides."""
    lost, samples = _lost(reports), run.samples
    if lost and roundings is None and samples.roundings:
        roundings = samples.roundings()
    open_ = {
        name
        for name in lost
        if roundings is not None and is_open(samples.outputs[name], run.outputs[name], roundings.get(name))
    }
    gaps = {name: gap for name, gap in run.gaps.items() if name not in open_}
    kept = [(rule, facts) for rule, facts in reports if rule not in OF_INEXACT_INPUTS]
    kept = [(rule, facts) for rule, facts in kept if rule not in LOCATABLE or facts["output"] not in open_]
    return replace(run, gaps=gaps), [(rule, facts) for rule, facts in kept if rule is not rules.EQUAL_ELEMENTS]


def is_open(want: np.ndarray, got: np.ndarray, runs: np.ndarray | None) -> bool:
    """Return True if other roundings move PyTorch's result as far as ONNX Runtime's is from it.

    `runs`, of shape [runs, ...], are PyTorch's with other roundings; None where their shape depends on them. Wherever
    the two differ, some of those differ too; of numbers by at most a factor of RATIO less.
    """
    if runs is None:
        return True
    if want.dtype != got.dtype or want.shape != got.shape:
        return False
    if element_of(want.dtype).kind != FLOAT:
        moved = (runs != want).any(0)
        return bool(moved[want != got].all()) or np.count_nonzero(moved) > MOST * moved.size
    if (other := turned(want, got, None, runs)) is not None:
        want, runs = other.want, other.roundings
    w, g, r = want.astype(np.float64), got.astype(np.float64), runs.astype(np.float64)
    finite = np.isfinite(w) & np.isfinite(g) & np.isfinite(r).all(0)
    moved = np.where(finite, np.abs(np.where(finite, r, 0.0) - np.where(finite, w, 0.0)).max(0), 0.0)
    spread = float(np.sqrt(np.square(moved).sum() / max(int(np.count_nonzero(finite)), 1)))
    distance = np.abs(np.where(finite, g, 0.0) - np.where(finite, w, 0.0))
    near = finite & (distance <= RATIO * np.maximum(moved, spread))
    same = (w == g) | (np.isnan(w) & np.isnan(g))
    # Where all of PyTorch's are numbers, so is a right result, unless its kernel has halves on its way that overflow.
    changing = (r != w).any(0) if want.dtype == np.float16 else (np.isfinite(r) != np.isfinite(w)).any(0)
    unsteady = ~finite & changing
    return bool((near | same | unsteady).all())


def _is_doubtful(run: Run) -> bool:
    return any(gap.too_big or not gap.comparable for gap in run.gaps.values())


def _reports(run: Run) -> list[Report]:
    return [report for check in VALIDATIONS for report in check(run)]


def _lost(reports: Collection[Report]) -> dict[str, None]:
    """The outputs that are not PyTorch's."""
    return dict.fromkeys(str(facts["output"]) for rule, facts in reports if rule in LOCATABLE)
