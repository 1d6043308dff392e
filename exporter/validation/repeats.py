"""Repeatability of eager PyTorch: results that a second call does not repeat cannot be compared with an ONNX model.

The second call finds what the first has left in Python, but PyTorch's random generators as they were: those numbers
the ONNX model draws itself. Where the first has left something, further calls follow, and one after a call on other
values. Where the results differ, a call for which everything is put back tells a state that the model keeps from what
nothing can repeat.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np
import torch

from fxport.diagnostics import Finding, Level, Log, Place, rules
from fxport.exporter.capture.faults import is_our_fault
from fxport.exporter.capture.holders import MISSING
from fxport.exporter.capture.snapshot import Change, Snapshot
from fxport.exporter.validation.untouched import same_draws, undisturbed
from fxport.exporter.weights.arrays import Arrays
from fxport.ort_runner.dtypes import FLOAT, element_of
from fxport.ort_runner.samples import STATEFUL, UNREPEATABLE
from fxport.ort_runner.trials import differs

STATE_RULES = (rules.PYTHON_STATE_BAKED, rules.PYTHON_RANDOM_BAKED, rules.ENVIRONMENT_BAKED)
"""Rules of the findings on lines that make a second call give different results."""

FURTHER_CALLS = 10
"""Calls after the second of a model that goes on to change what it holds."""

MOST_SECONDS = 2.0
"""Time after which no further call of those begins."""

MANY_CALLS, FEW_SECONDS = 250, 0.25
"""Calls that are made as long as they take this little time: counters often decide at a hundred."""

MOST_CHANGES = 3
"""Changed values that one finding names."""

DETAILS: Mapping[str, str] = {
    STATEFUL: "The first call changed {changed}; the ONNX model always gives what the first call gives.",
    UNREPEATABLE: "That is so even with the state before the first call{changed}.",
}

Run = Callable[[], Arrays]
Around = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Repeated:
    """The outputs of the first call. `doubts` has those that a second call gives otherwise, each with UNREPEATABLE or
    STATEFUL; `changed` says in words what a call changes."""

    outputs: Arrays
    doubts: Mapping[str, str]
    changed: str = ""


def twice(run: Run, around: Around, state: Snapshot, *, keeps: bool, other: Run | None = None) -> Repeated:
    """Call `run` twice, and once more with everything put back if that gives something else.

    Args:
        run: one eager call, which puts nothing back.
        around: puts back, at its end, everything that can be put back.
        state: what the model reaches, before any call.
        keeps: whether the second call finds what the first has left: not where the ONNX model has a state of its own.
        other: a call on other values. With it, what calls leave is looked at over more of them.
    """
    if keeps:
        with undisturbed(), around():
            with same_draws():
                first = run()
            second = run()
            apart = _apart(first, second)
            leaves = other is not None and any(state.changes())
            if leaves and not apart:
                apart = _apart_later(run, first, state)
        if other is not None and leaves and not apart:
            apart = _apart_after(other, run, around, first)
    else:
        first, second = (_alone(run, around) for _ in range(2))
        apart = _apart(first, second)
    if not apart:
        return Repeated(first, {})
    with undisturbed(), around():
        third = run()
        changed = _words([*state.changes()])
    never = _apart(first, third)
    return Repeated(first, {name: UNREPEATABLE if name in never else STATEFUL for name in apart}, changed)


def _alone(run: Run, around: Around) -> Arrays:
    with undisturbed(), around():
        return run()


def _apart_later(run: Run, first: Arrays, state: Snapshot) -> Sequence[str]:
    """The outputs that one of some further calls gives otherwise; none follow where a call has changed nothing more."""
    start = time.monotonic()
    for count in range(MANY_CALLS):
        before = state.anew()
        with same_draws():
            apart = _apart(first, run())
        limit = MOST_SECONDS if count + 1 < FURTHER_CALLS else FEW_SECONDS
        if apart or not any(before.changes()) or time.monotonic() - start > limit:
            return apart
    return ()


def _apart_after(other: Run, run: Run, around: Around, first: Arrays) -> Sequence[str]:
    """The outputs that a call after one on other values gives otherwise: those values were kept."""
    with undisturbed(), around():
        with same_draws():
            try:
                other()
            except Exception as error:
                if is_our_fault(error):
                    raise
                return ()  # values of ours that the model refuses
        return _apart(first, run())


def _apart(first: Arrays, second: Arrays) -> Sequence[str]:
    """The outputs that differ by more than two runs of one kernel may, which adds up in another order."""
    return [name for name, want in first.items() if name not in second or _differ(want, second[name])]


def _differ(one: np.ndarray, other: np.ndarray) -> bool:
    same = one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    return not same and differs(one, other, _as_truth(one))


def _as_truth(array: np.ndarray) -> np.ndarray:
    """The first call as if it were exact, so that the second may differ from it by some rounding units only."""
    return array.astype(np.float64) if element_of(array.dtype).kind == FLOAT else array


def _words(changes: Sequence[Change]) -> str:
    """ "'calls' from 0 to 1"."""
    return ", ".join(map(_change, changes[:MOST_CHANGES]))


def _change(change: Change) -> str:
    before, after = _shown(change.before), _shown(change.after)
    return f"'{change.name}'" if before == after else f"'{change.name}' from {before} to {after}"


def _shown(value: object) -> str:
    return "nothing" if value is MISSING else f"{value!r:.40}" if not isinstance(value, torch.Tensor) else "a tensor"


def report(repeated: Repeated, sample: str, at: Place | None, log: Log) -> None:
    """Report each output that is not repeated, at the line that the export blamed for a state; else at `at`.

    What the export noted of a state is a warning from now on: the results depend on it.
    """
    if not repeated.doubts:
        return
    blamed = [finding.place for finding in log.findings if finding.rule in STATE_RULES and finding.place is not None]
    for output, kind in repeated.doubts.items():
        changed = repeated.changed or "a state of Python's"
        told = changed if kind == STATEFUL else f"; a call changes {changed}" if repeated.changed else ""
        detail = DETAILS[kind].format(changed=told)
        log.report(rules.NOT_REPEATABLE, at=(blamed or [at])[0], output=output, detail=detail, sample=sample)
    log.revise(_warned)


def _warned(findings: Sequence[Finding]) -> Sequence[Finding]:
    return [
        replace(each, level=Level.WARNING)
        if each.rule is rules.PYTHON_STATE_BAKED and each.level is Level.NOTE
        else each
        for each in findings
    ]
