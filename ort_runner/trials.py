"""Trials: a model built for one question runs once, and its outputs are judged as those of any model are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

import numpy as np
import onnx

from fxport.diagnostics import Rule
from fxport.ort_runner.child import ChildSession
from fxport.ort_runner.compare import compare, disagreements
from fxport.ort_runner.cuts import scratch
from fxport.ort_runner.model_file import ModelFile, read_model_file
from fxport.ort_runner.samples import Samples
from fxport.ort_runner.session import LocalSession, Opened, Runtime
from fxport.ort_runner.sums import allowance
from fxport.ort_runner.validations import (
    Facts,
    non_finites_are_equal,
    run_of,
    shapes_are_equal,
    types_are_equal,
    values_are_near,
)

Run = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]
"""From inputs to outputs, by their names."""

CHECKS = (types_are_equal, shapes_are_equal, non_finites_are_equal, values_are_near)
NAME = "trial.onnx"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Defect of one output: a rule and its facts."""

    rule: Rule
    facts: Facts

    @property
    def ratio(self) -> float:
        """The error over its budget; infinite where there is no comparing."""
        return float(self.facts.get("ratio", np.inf))


def run_file(path: Path, inputs: Mapping[str, np.ndarray], runtime: Runtime) -> tuple[Opened, dict[str, np.ndarray]]:
    """The outputs of a model file. Raises Failure."""
    with opened_on(path, runtime) as (opened, run):
        return opened, run(inputs)


class Sessions:
    """Runs of many models one after the other, in one child as long as it lives, or here. A context manager."""

    def __init__(self, path: Path, runtime: Runtime) -> None:
        self._runtime = runtime
        self._child = ChildSession(path, runtime.provider, time_limit=runtime.time_limit) if runtime.isolate else None

    def run(
        self,
        path: Path,
        inputs: Mapping[str, np.ndarray] | None,
        *,
        optimize: bool = True,
        disabled: Sequence[str] = (),
    ) -> tuple[Opened, dict[str, np.ndarray]]:
        """The outputs of a model file; none without `inputs`. Raises Failure."""
        if self._child is not None:
            opened = self._child.open_next(path, lean=True, optimize=optimize, disabled=disabled)
            return opened, {} if inputs is None else self._child.run(_known(inputs, opened))
        with LocalSession(path, self._runtime.provider) as session:
            opened = session.open(lean=True, optimize=optimize, disabled=disabled)
            return opened, {} if inputs is None else session.run(_known(inputs, opened))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.__exit__(kind, error, trace)


def _known(inputs: Mapping[str, np.ndarray], opened: Opened) -> dict[str, np.ndarray]:
    """The inputs that a session has, also those of a state, which has values of its own where none are given."""
    names = {port.name for port in (*opened.inputs, *opened.state)}
    return {name: array for name, array in inputs.items() if name in names}


@contextmanager
def opened_on(path: Path, runtime: Runtime) -> Iterator[tuple[Opened, Run]]:
    """A model file, and what runs it. Inputs that it does not have are not given to it. Raises Failure."""
    runner = (
        ChildSession(path, runtime.provider, time_limit=runtime.time_limit)
        if runtime.isolate
        else LocalSession(path, runtime.provider)
    )
    with runner:
        opened = runner.open(lean=True, optimize=runtime.optimize, disabled=runtime.disabled)
        yield opened, lambda inputs: runner.run(_known(inputs, opened))


def run_built(
    model: onnx.ModelProto, origin: ModelFile, inputs: Mapping[str, np.ndarray], runtime: Runtime
) -> tuple[Opened, dict[str, np.ndarray], float]:
    """The outputs of a model made of parts of `origin`, and the allowance for its long sums. Raises Failure."""
    with scratch(origin.path, locations(origin)) as folder:
        path = folder / NAME
        path.write_bytes(model.SerializeToString())
        opened, outputs = run_file(path, inputs, runtime)
        return opened, outputs, sums_of(path, opened, inputs)


def sums_of(path: Path, opened: Opened, inputs: Mapping[str, np.ndarray]) -> float:
    """Return the error that long sums of a model may cost on these inputs, see `sums.allowance`."""
    return allowance(read_model_file(path), opened.inputs, inputs)


def differs(want: np.ndarray, got: np.ndarray, exact: np.ndarray | None) -> bool:
    """Return True if two arrays differ in type, shape, NaN or infinity, or by more than their error budget."""
    if want.dtype != got.dtype or want.shape != got.shape:
        return True
    truth = exact if exact is not None and exact.shape == want.shape else None
    return bool(disagreements(want, got, truth).any()) or compare(want, got, truth).too_big


def locations(model: ModelFile) -> Collection[str]:
    """The files beside a model that hold its weights."""
    return {location for location, _, _ in model.external.values()}


def judged(
    samples: Samples, outputs: Mapping[str, np.ndarray], opened: Opened, sums: float = 0.0
) -> Mapping[str, Verdict]:
    """The first thing that is wrong with each output that `samples` knows, by name."""
    run = run_of(samples, outputs, opened, sums=sums)
    found: dict[str, Verdict] = {}
    for check in CHECKS:
        for rule, facts in check(run):
            found.setdefault(str(facts["output"]), Verdict(rule, facts))
    return MappingProxyType(found)
