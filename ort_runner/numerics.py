"""Two model files on the same inputs: what the new one computes otherwise than the old one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fxport.diagnostics.amounts import allowed
from fxport.ort_runner.child import ChildSession
from fxport.ort_runner.compare import Gap, compare, disagreements
from fxport.ort_runner.dtypes import BOOL, BY_NAME, FLOAT
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.session import Dim, Opened, Port, Runtime
from fxport.ort_runner.trials import run_file, sums_of

Inputs = Mapping[str, np.ndarray]

GENERATED = "generated"
SEED = 0
LONE = 2
"""The size of a dim of which a model tells nothing."""
ALIKE = (8, 16, 32, 64)
"""Sizes that all dynamic dims are given together, where the model does not run with sizes that differ."""


@dataclass(frozen=True, slots=True)
class Change:
    """Comparison of one output on one sample. Without a comparison, `gap` is None and `detail` has the reason."""

    sample: str
    output: str
    gap: Gap | None
    detail: str = ""

    @property
    def told(self) -> str:
        """The difference in words, "" where it is within the budget of two runs of one model."""
        if self.gap is None or not self.gap.too_big:
            return self.detail
        at = f" at {list(self.gap.index)}" if self.gap.index else ""
        return f"{self.gap.worst:.3g}{at}, {ulp(self.gap)}{allowed(self.gap.ratio)}"


def ulp(gap: Gap) -> str:
    """ "3 ulp, ", or nothing where the old value is 0, whose last place is of no use."""
    return f"{gap.ulp:.3g} ulp, " if gap.want else ""


def generated(path: Path, runtime: Runtime) -> Inputs:
    """Inputs on which the model runs: normal numbers, 0 and 1 where they are whole, the same each time.

    Dynamic dims get sizes that differ from each other; where the model refuses them, the same size. Raises Failure,
    the first one, where it runs with none, and ValueError for an input that is no tensor.
    """
    with ChildSession(path, runtime.provider, time_limit=runtime.time_limit) as session:
        opened = session.open(lean=True, optimize=runtime.optimize)
    names = list(dict.fromkeys(dim for port in opened.inputs for dim in port.shape if isinstance(dim, str)))
    first: Failure | None = None
    for sizes in ({name: 3 + number for number, name in enumerate(names)}, *(dict.fromkeys(names, n) for n in ALIKE)):
        rng = np.random.default_rng(SEED)
        inputs = {port.name: _drawn(port, sizes, rng) for port in opened.inputs}
        try:
            run_file(path, inputs, runtime)
        except Failure as failure:
            first = first or failure
            if names and not failure.late:
                continue
            break
        return inputs
    assert first is not None
    raise first


def _drawn(port: Port, sizes: Mapping[str, int], rng: np.random.Generator) -> np.ndarray:
    element = BY_NAME.get(port.dtype)
    if element is None:
        raise ValueError(f"input '{port.name}' is {port.dtype}")
    shape = tuple(_size(dim, sizes) for dim in port.shape)
    if element.kind == FLOAT:
        return np.asarray(rng.standard_normal(shape)).astype(element.dtype)
    values = np.asarray(rng.integers(0, 2, shape))
    return values.astype(np.bool_) if element.kind == BOOL else values.astype(element.dtype)


def _size(dim: Dim, sizes: Mapping[str, int]) -> int:
    return dim if isinstance(dim, int) else sizes[dim] if isinstance(dim, str) else LONE


def changes(old: Path, new: Path, samples: Mapping[str, Inputs], runtime: Runtime) -> Iterator[Change]:
    """A row for each output of both models on each sample. Raises Failure where the old one does not run.

    The old model runs twice: an output that it gives otherwise the second time is drawn at random, and is not judged.
    """
    for label, inputs in samples.items():
        opened, want = run_file(old, inputs, runtime)
        again = run_file(old, inputs, runtime)[1]
        try:
            other, got = run_file(new, inputs, runtime)
        except Failure as failure:
            yield from (Change(label, name, None, f"the model fails now: {failure}") for name in want)
            continue
        sums = max(sums_of(old, opened, inputs), sums_of(new, other, inputs))
        for name in want:
            if name in got and want[name].tobytes() == again[name].tobytes():
                yield _change(label, name, want[name], got[name], opened, sums)


def _change(label: str, name: str, want: np.ndarray, got: np.ndarray, opened: Opened, sums: float) -> Change:
    for what, was, now in (("type", want.dtype.name, got.dtype.name), ("shape", list(want.shape), list(got.shape))):
        if was != now:
            return Change(label, name, None, f"its {what} was {was}, it is {now}")
    if count := int(np.count_nonzero(disagreements(want, got))):
        return Change(label, name, None, f"{count} elements are NaN or infinite otherwise than they were")
    return Change(label, name, compare(want, got, provider=opened.choice.provider, sums=sums))
