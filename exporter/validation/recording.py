"""Records of eager PyTorch: one call of a model with all that its outputs are judged by."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from fxport.diagnostics import Log, rules
from fxport.diagnostics.messages import error_line
from fxport.exporter.capture.eager import FailsOnRanks, called, patience, restored
from fxport.exporter.capture.fake import has_no_values
from fxport.exporter.capture.faults import is_our_fault
from fxport.exporter.capture.float64 import widened
from fxport.exporter.capture.own_limits import OwnLimits
from fxport.exporter.capture.places import place_of_module
from fxport.exporter.capture.self_check.inputs import drawn
from fxport.exporter.capture.snapshot import Snapshot
from fxport.exporter.capture.wrappers import unwrapped
from fxport.exporter.onnx_program import OnnxProgram
from fxport.exporter.validation.equals import EQUALS, OWN, chooses
from fxport.exporter.validation.repeats import report, twice
from fxport.exporter.validation.roundings import rounded_otherwise
from fxport.exporter.validation.runs import changed_by, fed, outputs_of, run_doubled, run_widened, state_of
from fxport.exporter.validation.untouched import tensors_kept, undisturbed
from fxport.exporter.weights.arrays import Arrays, as_array
from fxport.fx_passes.program import Program
from fxport.ort_runner.samples import Choices, Samples

EXACT_LIMIT = 2048 * 1024 * 1024
"""Bytes of weights up to which the model is also run in float64: that takes several times as long."""

DRAWS = 16
"""Runs of a model that draws random numbers: how much its outputs vary from run to run must be known."""

LATER = "later"
CALLS_BEFORE, SLOW_CALL, LEAST_CALLS = 11, 0.25, 2
"""Calls of a model with a state before the one that is compared; the seconds of a slow call, and how many there are of
those: after the first, a state may still be all zeros."""

Call = tuple[Any, Any]

COPIED_LIMIT = 256 * 1024 * 1024
"""Bytes of weights up to which a copy of the model in float64 is made, which holds them three times."""


@dataclass(frozen=True)
class Case:
    """One recorded run: inputs and outputs under their ONNX names; `exact` holds the outputs computed in float64,
    `draws` those that are drawn at random, over several runs, and `doubts` those that a second call gives otherwise.
    `roundings` and `choices` call the model again, see `rounded_otherwise` and `EQUALS`. `is_made` says that the
    inputs are values of ours."""

    label: str
    inputs: Arrays
    outputs: Arrays
    exact: Arrays | None
    draws: Arrays | None = None
    doubts: Mapping[str, str] = field(default_factory=dict)
    is_extra: bool = False
    may_fail: bool = False
    roundings: Callable[[], Arrays] | None = None
    choices: Choices | None = None
    is_made: bool = False

    def samples(self) -> Samples:
        """The same for ONNX Runtime's side."""
        return Samples(*(getattr(self, each.name) for each in fields(self)))  # the same fields, in the same order


@dataclass(frozen=True, slots=True)
class Subject:
    """A module that is run, and what was exported of it. `random` says that it draws random numbers, `whole` is what
    computes in float64 if the module itself cannot, `log` gets why nothing does. `state` is what the module reaches.
    `seconds` is what the example takes, by which calls on values of ours are ended; None where none are.
    `takes_nothing` says that ONNX Runtime lives through inputs without elements. `equals` is a key of `EQUALS`, which
    says what operators that choose among equals take; `chooses` that there are some."""

    module: torch.nn.Module
    program: Program
    random: bool
    whole: torch.nn.Module | None
    log: Log
    state: Snapshot
    seconds: float | None = None
    takes_nothing: bool = True
    equals: str = OWN
    chooses: bool = False

    @classmethod
    def of(
        cls, model: Any, exported: OnnxProgram, log: Log, *, random: bool, whole: torch.nn.Module | None = None
    ) -> Subject:
        """The subject of a model as it is now."""
        module = model.module() if isinstance(model, torch.export.ExportedProgram) else unwrapped(model)
        alive = not any(node.op_type in DYING for node in ir.traversal.RecursiveGraphIterator(exported.model.graph))
        state, program = Snapshot.of({"": module}), exported.program
        return cls(module, program, random, whole, log, state, takes_nothing=alive, chooses=chooses(program))

    def outputs(self, call: Call) -> Arrays:
        """The outputs of one eager run, which puts nothing back."""
        with EQUALS[self.equals]():
            return outputs_of(self.module, call, self.program)

    @contextmanager
    def put_back(self) -> Iterator[None]:
        """Put back, at the end, all that a run may have changed of the model."""
        with restored(self.module, changed_by(self.program), self.state), tensors_kept(self.module):
            yield

    @contextmanager
    def again(self) -> Iterator[None]:
        """Run once more, beside all that has been compared meanwhile."""
        with self.put_back(), undisturbed():
            yield


DYING = frozenset({"LSTM", "GRU", "RNN"})
"""Operators at which the process of ONNX Runtime dies where a size is 0: a model of them is compared at none."""


class NoYardstickError(Exception):
    """There is no run in float64; the text says why."""


def _others(call: Call) -> Call:
    """The call with drawn values, not with those of the first seed: it is that of many an example."""
    return next(islice(drawn([call]), 1, None))[1]


def raised(error: BaseException) -> str:
    """Return the model's exception in one line: that of rank 0, where it runs on several."""
    if isinstance(error, FailsOnRanks) and error.__cause__ is not None:
        return raised(error.__cause__)
    return error_line(error)


def record_later(label: str, subject: Subject, call: tuple[Any, Any]) -> Case:
    """The call once more, after `CALLS_BEFORE` calls of it: the state that they led to is fed as inputs."""
    module, program = subject.module, subject.program
    with subject.put_back():
        with undisturbed():
            for _ in range(CALLS_BEFORE if (subject.seconds or 0.0) < SLOW_CALL else LEAST_CALLS):
                called(module, call)
        state = {
            name: state_of(module, program, target).detach().clone() for name, target in state_inputs(program).items()
        }
        case = record(label, replace(subject, state=Snapshot.of({"": module})), call)
    # what is called again finds the state before these calls, so nothing is
    return replace(
        case,
        roundings=None,
        choices=None,
        inputs=case.inputs | {name: as_array(value) for name, value in state.items()},
    )


def state_inputs(program: Program) -> dict[str, str]:
    """The inputs that stand for a state which the model changes, with where the model holds it."""
    changed = changed_by(program)
    return {
        entry.name: entry.target for entry in program.inputs if entry.target is not None and entry.target in changed
    }


def record(label: str, subject: Subject, call: tuple[Any, Any]) -> Case:
    module, program = subject.module, subject.program
    inputs = {name: as_array(tensor) for name, tensor in fed(module, call, program).items()}
    run = partial(subject.outputs, call)
    other = None if subject.seconds is not None else lambda: subject.outputs(_others(call))
    repeated = twice(run, subject.put_back, subject.state, keeps=not changed_by(program), other=other)
    outputs = repeated.outputs
    with undisturbed():
        draws = _draws(subject, run, outputs) if subject.random else None
        told = replace(repeated, doubts={name: k for name, k in repeated.doubts.items() if name not in (draws or {})})
        report(told, label, place_of_module(module), subject.log)
        exact = _yardstick(subject, call, outputs, {*(draws or {}), *told.doubts})
    again = None if subject.whole is not None else partial(rounded_otherwise, run, outputs, subject.again)
    choices = partial(_chosen_otherwise, subject, call) if subject.chooses and subject.whole is None else None
    return Case(label, inputs, outputs, exact, draws, told.doubts, roundings=again, choices=choices)


def _chosen_otherwise(subject: Subject, call: Call) -> Iterator[tuple[str, Arrays, Arrays | None]]:
    """The outputs where operators that choose among equals take each other of them, see `EQUALS`."""
    for equals in EQUALS.keys() - {subject.equals}:
        other = replace(subject, equals=equals, log=Log())
        with other.again():
            outputs = other.outputs(call)
            exact = _yardstick(other, call, outputs, ())
        yield equals, outputs, exact


Record = Callable[[str, Subject, Call], Case]


def tried(name: str, subject: Subject, call: Call, record: Record = record) -> Case | Exception:
    """The run of a call, or what the model raised for it. A mistake of fxport's own flies on."""
    limit = nullcontext() if subject.seconds is None else patience(subject.program.graph_module, subject.seconds)
    try:
        with limit:
            return record(name, subject, call)
    except Exception as error:
        if is_our_fault(error):
            raise
        return error


def first_taken(name: str, subject: Subject, calls: Iterable[Call], record: Record) -> Case | Exception | None:
    """The run of the first call that the model takes; what it raised for the first one if it takes none."""
    failure = None
    for call in calls:
        case = tried(name, subject, call, record)
        if isinstance(case, Case):
            return case
        failure = failure or case
    return failure


def _yardstick(subject: Subject, call: tuple[Any, Any], outputs: Arrays, unsteady: Collection[str]) -> Arrays | None:
    """The outputs in float64, without the unsteady ones, whose differences are no rounding errors; None with a finding
    where they cannot be had."""
    try:
        exact = _run_exactly(subject, call)
    except NoYardstickError as why:
        subject.log.report(rules.YARDSTICK_MISSING, at=place_of_module(subject.module), reason=str(why))
        return None
    # other digits may decide otherwise how many there are of something
    return {name: each for name, each in exact.items() if each.shape == outputs[name].shape and name not in unsteady}


def _draws(subject: Subject, run: Callable[[], Arrays], first: Arrays) -> Arrays:
    """The outputs that are not the same in every run, of shape [runs, ...]."""
    runs = [first]
    for _ in range(DRAWS - 1):
        with subject.put_back():
            runs.append(run())
    same = [name for name in first if len({run[name].shape for run in runs}) == 1]
    stacked = {name: np.stack([run[name] for run in runs]) for name in same}
    return {name: array for name, array in stacked.items() if not all(map(_equal, array, array[:1].repeat(DRAWS, 0)))}


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    return one.tobytes() == other.tobytes()  # also where they are NaN


def _run_exactly(subject: Subject, call: tuple[Any, Any]) -> Arrays:
    """The same in float64. Raises NoYardstickError where the model is too large for that or takes no float64.

    An output that the model holds in another precision, such as a constant of its own, is no yardstick: left out.
    """
    if subject.whole is not None:
        subject = replace(subject, module=subject.whole, state=Snapshot.of({"": subject.whole}))
    module, program = subject.module, subject.program
    if any(has_no_values(parameter) for parameter in module.parameters()):  # no mode of this process is seen elsewhere
        raise NoYardstickError("other processes hold a part of the weights")
    weights = sum(tensor.numel() * tensor.element_size() for tensor in program.tensors.values())
    if weights > EXACT_LIMIT:
        raise NoYardstickError(f"the weights are {weights} bytes, and it is run up to {EXACT_LIMIT}")
    failures: list[Exception] = []
    for run in (run_widened, run_doubled) if weights <= COPIED_LIMIT else (run_widened,):
        try:
            # not under the mode of a run, which refuses narrow writes
            limits = OwnLimits()
            with subject.put_back(), EQUALS[subject.equals](), limits.noted():
                outputs = run(module, widened(call), program)
            if limits.matter:
                with subject.put_back(), limits.recorded():
                    subject.outputs(call)
                with subject.put_back(), EQUALS[subject.equals](), limits.replayed():
                    outputs = run(module, widened(call), program)
        except Exception as error:  # noqa: BLE001  # the model's own code; what it raises is told
            failures.append(error)
            continue
        return {
            name: array for name, array in outputs.items() if array.dtype == np.float64 or array.dtype.kind in "biu"
        }
    raise NoYardstickError(f"in float64 it fails: {raised(failures[0])}")
