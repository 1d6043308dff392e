"""validate: a model file and samples in, findings out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from fxport.diagnostics import Level, Log, Place, Rule, rules
from fxport.diagnostics.exhaustion import raise_if_exhausted
from fxport.ort_runner.child import ChildSession
from fxport.ort_runner.compare import Gap
from fxport.ort_runner.distributions import Difference
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.judging import LOCATABLE, compared
from fxport.ort_runner.model_file import ModelFile, missing_external_data, read_model_file
from fxport.ort_runner.providers import AUTO, report_fall_back
from fxport.ort_runner.runtimes import ONNXRUNTIME, session_of
from fxport.ort_runner.samples import Arrays, Samples
from fxport.ort_runner.session import Opened, Runner, Runtime
from fxport.ort_runner.shown import nothing_shown
from fxport.ort_runner.sums import allowance
from fxport.ort_runner.validations import Facts, Run, inputs_fit

if TYPE_CHECKING:
    from fxport.ort_runner.inexact_kernels import Exact
    from fxport.ort_runner.optimizers import OptimizerFault

LARGE_MODEL = 1 << 28  # bytes; a larger one is not kept in memory twice


BY_OPTIMIZERS = frozenset({rules.MODEL_REJECTED, rules.KERNEL_MISSING, rules.RUNTIME_FAILED})
"""Failures that a graph optimization may bring."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a difference: a text, and a place in the user's code; without a place it cannot be told."""

    text: str
    place: Place | None = None
    related: tuple[Place, ...] = ()


Explain = Callable[[Samples, Collection[str], bool], Mapping[str, Origin]]
"""Called with a sample, the outputs of it that are not PyTorch's, and whether they are that without the errors of
inexact kernels, too; gives the origin for each of them."""

UNSOUGHT = Origin("not looked for")


@dataclass(frozen=True, slots=True)
class SampleResult:
    """Result of one of the samples.

    `gaps` has the outputs that could be compared by value, `differences` those that are drawn at random; `seconds` is
    the run's time. `is_extra` is that of the samples.
    """

    label: str
    gaps: Mapping[str, Gap]
    seconds: float
    passed: bool
    differences: Mapping[str, Difference] = field(default_factory=dict)
    is_extra: bool = False
    lost: Mapping[str, np.ndarray] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Validation:
    """The verdict. `provider` is the one that ran, None if no session came up; `passed` says that every one of at
    least one samples ran and that no error was found. `doubts` has the outputs that are not validated all the same,
    each with the rule of the finding that says why. `witnesses` are the verdicts of other runtimes, which `passed` has
    counted."""

    model: Path
    provider: str | None
    samples: tuple[SampleResult, ...]
    seconds: float
    passed: bool
    doubts: Mapping[str, str] = field(default_factory=dict)
    witnesses: tuple[Validation, ...] = ()

    @property
    def equal(self) -> bool:
        """True if the sample passed and no output is in doubt."""
        return self.passed and not self.doubts

    @property
    def worst(self) -> tuple[str, str, Gap] | None:
        """(label, output, gap) of the output with the largest error for its budget; None if none was compared."""
        gaps = [(sample.label, name, gap) for sample in self.samples for name, gap in sample.gaps.items()]
        return max(gaps, key=lambda entry: entry[2].ratio, default=None)


def validate(
    model_path: str | os.PathLike[str],
    samples: Sequence[Samples],
    provider: str = AUTO,
    log: Log | None = None,
    *,
    isolate: bool = True,
    time_limit: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    explain: Explain | None = None,
    runtime: str = ONNXRUNTIME,
) -> Validation:
    """Run a model on each of the samples and compare its outputs with PyTorch's.

    Everything that is wrong goes to `log` as findings; nothing is raised for a bad model. `isolate` runs ONNX Runtime
    in a child process: 0.2 s more, for which a crash, a hang of more than `time_limit` seconds (60, and one for each
    20 MB of the model, by default), or a lack of memory is a finding too instead of the end of this process. After a
    hang no further sample is run. `atol` and `rtol` replace the error budget by |got - want| <= atol + rtol * |want|.
    `explain` is asked for the origin of a difference; the finding is then placed there. `runtime` is a row of
    `RUNTIMES`; what is wrong with the samples themselves is told for ONNX Runtime only. Raises ValueError for a
    provider that is unknown.
    """
    start = time.perf_counter()
    path = Path(model_path)
    runner: Runner = (
        ChildSession(path, provider, time_limit=time_limit, runtime=runtime)
        if isolate
        else session_of(runtime, path, provider)
    )
    with runner:
        trials = Runtime(provider, optimize=True, isolate=isolate, time_limit=time_limit)
        work = _Work(path, log or Log(), runner, (atol, rtol), explain, trials, runtime)
        opened = work.open(samples[0] if samples else None)
        results = tuple(work.sample(s) for s in samples) if opened else ()
        if opened and not work.errors and runtime == ONNXRUNTIME:
            work.doubt(samples)
            work.tell_ways(samples, replace(trials, provider=opened.choice.provider.name, optimize=False))
    if not samples:
        work.say(rules.VALIDATION_SKIPPED, {"reason": "there are no samples"})
    return Validation(
        model=path,
        provider=opened.choice.provider.name if opened else None,
        samples=results,
        seconds=time.perf_counter() - start,
        passed=bool(results) and not work.errors and all(result.passed for result in results),
        doubts=MappingProxyType(work.doubts),
    )


class _Work:
    """One validation while it runs: the session, the log, and the number of errors said so far."""

    def __init__(
        self,
        path: Path,
        log: Log,
        runner: Runner,
        tolerances: tuple[float | None, float | None],
        explain: Explain | None,
        trials: Runtime,
        runtime: str,
    ) -> None:
        self.errors = 0
        self.doubts: dict[str, str] = {}
        self._path, self._log, self._runner = path, log, runner
        self._tolerances, self._explain = tolerances, explain
        self._trials, self._runtime = trials, runtime
        self._opened: Opened | None = None
        self._late = False

    @cached_property
    def _file(self) -> ModelFile:
        return read_model_file(self._path)

    @cached_property
    def _lean(self) -> bool:
        return self._file.size() > LARGE_MODEL

    def say(self, rule: Rule, facts: Facts, at: Place | None = None, related: Sequence[Place] = ()) -> None:
        """Report, and count errors."""
        finding = self._log.report(rule, at, related=related, **facts)
        self.errors += finding.level is Level.ERROR

    def open(self, samples: Samples | None) -> Opened | None:
        """The open session, or None after a finding; the sample shows it."""
        try:
            missing = tuple(missing_external_data(self._file))
        except (OSError, ValueError) as error:
            raise_if_exhausted(error)
            reason = f"{self._path}: {getattr(error, 'strerror', None) or error}"
            self.say(rules.MODEL_REJECTED, {"error": reason}, Place(str(self._path), 1, 1))
            return None
        for name, reason in missing:
            self.say(rules.EXTERNAL_DATA_MISSING, {"name": name, "reason": reason}, Place(str(self._path), 1, 1))
        if missing:
            return None
        try:
            self._opened = self._runner.open(lean=self._lean)
        except Failure as failure:
            self._fail(failure, samples, opening=True)
            return None
        finding = report_fall_back(self._opened.choice, self._log)
        self.errors += finding is not None and finding.level is Level.ERROR
        return self._opened

    def sample(self, samples: Samples) -> SampleResult:
        """Run one and check it. A session that died with the last one is opened again."""
        before, seconds = self.errors, 0.0
        gaps: Mapping[str, Gap] = {}
        differences: Mapping[str, Difference] = {}
        lost: Mapping[str, np.ndarray] = {}
        if self._late:  # the model does not end, and would not with this sample
            return SampleResult(samples.label, gaps, seconds, False, differences)
        try:
            opened = self._opened or self._runner.open(lean=self._lean)
            self._opened = opened
            unfit = tuple(inputs_fit(opened, samples))
            for rule, facts in unfit:
                self.say(rule, {**facts, "sample": samples.label}, Place(str(self._path), 1, 1))
            if not unfit:
                start = time.perf_counter()
                outputs = self._runner.run(samples.inputs)
                seconds = time.perf_counter() - start
                run, lost = self._check(opened, samples, outputs)
                gaps, differences = run.gaps, run.differences
        except Failure as failure:
            if samples.may_fail:
                self._refused(failure, samples.label)
            else:
                self._fail(failure, samples)
            self._late = failure.late
            if failure.fatal:
                self._opened = None
        return SampleResult(
            samples.label,
            MappingProxyType(dict(gaps)),
            seconds,
            self.errors == before,
            MappingProxyType(differences),
            samples.is_extra,
            lost,
        )

    def doubt(self, samples: Sequence[Samples]) -> None:
        """Report the outputs that show nothing, and remember those that PyTorch does not repeat."""
        self.doubts |= dict.fromkeys((name for each in samples for name in each.doubts), rules.NOT_REPEATABLE.id)
        for name, detail in nothing_shown(samples):
            facts = {"output": name, "detail": detail, "count": len(samples)}
            self.say(rules.NOTHING_SHOWN, facts, self._file.place_of_value(name))
            self.doubts.setdefault(name, rules.NOTHING_SHOWN.id)

    def tell_ways(self, samples: Sequence[Samples], runtime: Runtime) -> None:
        """Report each way of a branch that no sample took."""
        from fxport.ort_runner.branches import branches_run  # loads onnx

        try:
            branches = branches_run(self._file, samples, runtime)
        except Failure as failure:
            self._fail(failure)
            return
        for name, branch in branches.items():
            for missing in branch.missing:
                facts = {"truth": str(missing).lower(), "reads": branch.reads(missing), "count": len(samples)}
                self.say(rules.BRANCH_NOT_TAKEN, facts, self._file.place_of_node(name))

    def _check(self, opened: Opened, samples: Samples, outputs: Mapping[str, np.ndarray]) -> tuple[Run, Arrays]:
        """Report what is wrong with the outputs of a run; returns them with those that are not PyTorch's."""
        atol, rtol = self._tolerances
        draws = self._draws(samples, outputs)
        found = compared(
            samples,
            outputs,
            opened,
            lambda: allowance(self._file, opened.inputs, samples.inputs),  # reads the shapes of the whole model
            atol=atol,
            rtol=rtol,
            draws=draws,
            without_errors=partial(self._without_errors, opened, samples),
        )
        run, reports = found.run, found.reports
        lost = dict.fromkeys(str(facts["output"]) for rule, facts in reports if rule in LOCATABLE)
        origins = self._explain(samples, lost, found.is_exact) if lost and self._explain else {}
        for rule, facts in reports:
            name = str(facts.get("output", facts.get("name", "")))
            place, related = self._file.place_of_value(name), ()
            if rule in LOCATABLE:
                origin = origins.get(name, UNSOUGHT)
                facts = {**facts, "cause": origin.text}
                place, related = origin.place or place, origin.related
            self.say(rule, {**facts, "sample": samples.label}, place, related)
            if rule is rules.NOT_COMPARABLE or (rule is rules.INEXACT_KERNELS and facts["level"] is Level.WARNING):
                self.doubts[name] = rule.id
        return run, {name: outputs[name] for name in lost}

    def _without_errors(self, opened: Opened, samples: Samples) -> Exact | None:
        """Run the file without the errors of inexact kernels, where those are what runs."""
        from fxport.ort_runner.inexact_kernels import PROVIDER, exact_outputs  # loads onnx

        if self._runtime != ONNXRUNTIME or opened.choice.provider.name != PROVIDER:
            return None
        return exact_outputs(self._path, samples.inputs, replace(self._trials, provider=PROVIDER))

    def _draws(self, samples: Samples, first: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """The outputs that are drawn at random, over as many runs as PyTorch's."""
        wanted = [name for name, want in (samples.draws or {}).items() if _alike(want[0], first.get(name))]
        if not wanted:
            return {}
        count = max(len((samples.draws or {})[name]) for name in wanted)
        runs = [first, *(self._runner.run(samples.inputs) for _ in range(count - 1))]
        return {name: np.stack([run[name] for run in runs]) for name in wanted}

    def _fail(self, failure: Failure, samples: Samples | None = None, *, opening: bool = False) -> None:
        """Report a failure at the line that it comes from, where the sample shows it."""
        fault = self._fault(failure, samples.inputs if samples else None)
        if fault is not None:
            facts = {"optimizer": fault.name, "operators": fault.broken, "error": failure.facts.get("error", "")}
            self.say(rules.OPTIMIZER_FAULT, facts, *fault.places(self._file))
            return
        rule, facts = failure.rule, failure.facts
        if self._runtime != ONNXRUNTIME:  # also the end of its process
            facts = {"runtime": self._runtime, "error": facts.get("error", failure)}
            rule = rules.WITNESS_FAILED
        facts = facts if samples is None or opening else {**facts, "sample": samples.label}
        place, related = self._file.place_of_node(failure.node or ""), ()
        if self._explain and samples and rule in BY_OPTIMIZERS and not failure.late:
            origins = [*self._explain(samples, samples.outputs.keys(), False).values()]
            origin = next((each for each in origins if each.place is not None), origins[0] if origins else UNSOUGHT)
            cause = origin.text.removesuffix(f": {facts.get('error', '')}")  # said already
            facts, place, related = {**facts, "cause": cause}, origin.place or place, origin.related
        self.say(rule, facts, place, related)

    def _refused(self, failure: Failure, label: str) -> None:
        """Report the end of a process for inputs that may be refused: an exception is all that is said of others."""
        if failure.fatal:
            facts = {**failure.facts, "sample": label, "level": Level.WARNING}
            self.say(failure.rule, facts, self._file.place_of_node(failure.node or ""))

    def _fault(self, failure: Failure, inputs: Mapping[str, np.ndarray] | None) -> OptimizerFault | None:
        """The runtime's own fault behind a failure, if it is one."""
        if failure.late or failure.rule not in BY_OPTIMIZERS or self._runtime != ONNXRUNTIME:
            return None
        from fxport.ort_runner.optimizers import optimizer_fault  # loads onnx

        return optimizer_fault(self._path, inputs, self._trials, lambda _opened, _outputs: True)


def _alike(want: np.ndarray, got: np.ndarray | None) -> bool:
    """Return True if there is such an output, of the same type and shape."""
    return got is not None and want.dtype == got.dtype and want.shape == got.shape
