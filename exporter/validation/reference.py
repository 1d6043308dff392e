"""Eager PyTorch's results for the example inputs and for inputs of other sizes: the references of validation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from fxport.diagnostics import Level, Log, rules
from fxport.diagnostics.messages import error_line
from fxport.exporter.capture.arguments.keywords import in_order
from fxport.exporter.capture.arguments.padded import as_padded
from fxport.exporter.capture.eager import FailsOnRanks, called, patience, restored
from fxport.exporter.capture.fake import has_no_values
from fxport.exporter.capture.faults import is_our_fault
from fxport.exporter.capture.float64 import widened
from fxport.exporter.capture.places import place_of_module
from fxport.exporter.capture.self_check.inputs import drawn
from fxport.exporter.capture.sizes.resizing import at_hard_sizes, resized
from fxport.exporter.capture.sizes.values import at_hard_values, at_other_values
from fxport.exporter.capture.snapshot import Snapshot
from fxport.exporter.capture.wrappers import unwrapped
from fxport.exporter.onnx_program import OnnxProgram
from fxport.exporter.validation.adversarial import HARD, adversarial
from fxport.exporter.validation.repeats import report, twice
from fxport.exporter.validation.roundings import rounded_otherwise
from fxport.exporter.validation.runs import changed_by, fed, outputs_of, run_doubled, run_widened, state_of
from fxport.exporter.validation.sizes import Beyond, at_edges, at_nothing, beyond
from fxport.exporter.validation.untouched import tensors_kept, undisturbed
from fxport.exporter.weights.arrays import Arrays, as_array
from fxport.fx_passes.program import Program
from fxport.fx_passes.randomness import draws_numbers
from fxport.ort_runner.samples import Samples
from fxport.ort_runner.shown import NO_ELEMENTS, nothing_shown

EXACT_LIMIT = 2048 * 1024 * 1024
"""Bytes of weights up to which the model is also run in float64: that takes several times as long."""

DRAWS = 16
"""Runs of a model that draws random numbers: how much its outputs vary from run to run must be known."""

LATER = "later"
CALLS_BEFORE, SLOW_CALL, LEAST_CALLS = 8, 0.25, 2
"""Calls of a model with a state before the one that is compared; the seconds of a slow call, and how many there are of
those: after the first, a state may still be all zeros."""

Call = tuple[Any, Any]

NONE_FURTHER: Mapping[str, tuple[tuple[Any, ...], Mapping[str, Any]]] = MappingProxyType({})

COPIED_LIMIT = 256 * 1024 * 1024
"""Bytes of weights up to which a copy of the model in float64 is made, which holds them three times."""


@dataclass(frozen=True)
class Case:
    """One recorded run: inputs and outputs under their ONNX names; `exact` holds the outputs computed in float64,
    `draws` those that are drawn at random, over several runs, and `doubts` those that a second call gives otherwise.
    `roundings` calls the model again, see `rounded_otherwise`."""

    label: str
    inputs: Arrays
    outputs: Arrays
    exact: Arrays | None
    draws: Arrays | None = None
    doubts: Mapping[str, str] = field(default_factory=dict)
    is_extra: bool = False
    may_fail: bool = False
    roundings: Callable[[], Arrays] | None = None

    def samples(self) -> Samples:
        """The same for ONNX Runtime's side."""
        return Samples(*(getattr(self, each.name) for each in fields(self)))  # the same fields, in the same order


@dataclass(frozen=True, slots=True)
class _Subject:
    """A module that is run, and what was exported of it. `random` says that it draws random numbers, `whole` is what
    computes in float64 if the module itself cannot, `log` gets why nothing does. `state` is what the module reaches.
    `seconds` is what the example takes, by which calls on values of ours are ended; None where none are.
    `takes_nothing` says that ONNX Runtime lives through inputs without elements."""

    module: torch.nn.Module
    program: Program
    random: bool
    whole: torch.nn.Module | None
    log: Log
    state: Snapshot
    seconds: float | None = None
    takes_nothing: bool = True

    @classmethod
    def of(
        cls, model: Any, exported: OnnxProgram, log: Log, *, random: bool, whole: torch.nn.Module | None = None
    ) -> _Subject:
        """The subject of a model as it is now."""
        module = model.module() if isinstance(model, torch.export.ExportedProgram) else unwrapped(model)
        alive = not any(node.op_type in DYING for node in ir.traversal.RecursiveGraphIterator(exported.model.graph))
        return cls(module, exported.program, random, whole, log, Snapshot.of({"": module}), takes_nothing=alive)

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


def cases(
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    exported: OnnxProgram,
    log: Log,
    *,
    hard: bool = False,
    seconds: float = 0.0,
    label: str = "sample",
    further: Mapping[str, tuple[tuple[Any, ...], Mapping[str, Any]]] = NONE_FURTHER,
    whole: torch.nn.Module | None = None,
) -> Iterator[Case]:
    """Runs eager PyTorch on the example, which is called `label`; on the `further` calls, by their labels; where sizes
    are dynamic, on another size of each ("resized"); where sizes depend on values, on other values ("other values");
    and where the model has a state that it changes, on the example after some calls ("later").

    Where these show nothing, as one number everywhere, values are drawn for the example's inputs ("drawn").
    Sizes at the edge of what dynamic dimensions promise follow (see `at_edges`), as many as `seconds` pay for.

    With `hard`, all of these, also at the smallest, the largest and a prime size, and on zeros, NaN and other values
    that kernels get wrong, see `at_hard_sizes`, `at_hard_values` and `adversarial`. Inputs of ours that eager PyTorch
    refuses are reported as ValidationSkipped, the user's as InputMismatch; further sizes that it refuses are nobody's
    fault. The model's state is afterwards what it was. `whole` is what computes in float64 where `model` runs on
    several ranks: the same model in one process.
    """
    random = draws_numbers(exported.program.graph_module)
    subject = _Subject.of(model, exported, log, random=random, whole=whole)
    module = subject.module
    call = as_padded((tuple(args), in_order(module, kwargs)))
    start = time.perf_counter()
    first = _record(label, subject, call)
    cost = time.perf_counter() - start
    yield first
    told = [first]
    for name, (others, named) in further.items():
        case = _tried(name, subject, (tuple(others), in_order(module, named)))
        if isinstance(case, Exception):
            at = place_of_module(module)
            log.report(rules.INPUT_MISMATCH, at=at, name=name, error=_raised(case), sample=name)
            continue
        told.append(case)
        yield case
    subject = replace(subject, seconds=cost)
    for name, how, tries in _of_ours(module, call, exported.program, hard=hard):
        record, start = _record_later if name == LATER else _record, time.perf_counter()
        case = _first(name, subject, tries, record)
        if case is None:
            continue
        if isinstance(case, Exception):
            reason = f"eager PyTorch fails {how}: {_raised(case)}"
            log.report(rules.VALIDATION_SKIPPED, at=place_of_module(module), level=Level.NOTE, name=name, reason=reason)
            continue
        cost = min(cost, time.perf_counter() - start)  # the first was a warm-up, too
        told.append(case)
        yield case
    if any(nothing_shown([case.samples() for case in told])):
        yield from _at_drawn(subject, call)
    yield from _at_edges(subject, call, cost, math.inf if hard else seconds)


def _others(call: Call) -> Call:
    """The call with drawn values, not with those of the first seed: it is that of many an example."""
    return next(islice(drawn([call]), 1, None))[1]


def _at_drawn(subject: _Subject, call: tuple[Any, Any]) -> Iterator[Case]:
    """A run on drawn values, for an example of which the results tell nothing, such as ones everywhere."""
    case = _tried("drawn", subject, next(drawn([call]))[1])
    if isinstance(case, Case):  # the model may refuse values of ours
        yield case


def _at_edges(subject: _Subject, call: tuple[Any, Any], cost: float, seconds: float) -> Iterator[Case]:
    """The runs at sizes of `at_edges` that eager PyTorch takes, as long as another one of that cost can be paid for.

    What the model refuses is its own matter, and so is a size at which an output is NaN everywhere. Where time is
    without bound, sizes of 0 follow: ONNX Runtime may refuse them where PyTorch does not, but give nothing else.
    """
    if seconds < cost:
        return
    start = time.perf_counter()
    is_extra = seconds < math.inf
    for label, changed in at_edges(subject.module, call, subject.program):
        if time.perf_counter() - start + cost > seconds:
            return
        case = _tried(label, subject, changed)
        if isinstance(case, Case) and not any(nothing_shown([case.samples()])):
            yield replace(case, is_extra=is_extra)
    if is_extra or not subject.takes_nothing:
        return
    for label, changed in at_nothing(subject.module, call, subject.program):
        case = _tried(label, subject, changed)
        if isinstance(case, Case) and all(detail == NO_ELEMENTS for _, detail in nothing_shown([case.samples()])):
            yield replace(case, may_fail=True)


def cases_beyond(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, exported: OnnxProgram
) -> Iterator[tuple[Beyond, Sequence[Case]]]:
    """The runs of eager PyTorch at sizes that a limit of a dimension excludes, as far as it takes them."""
    subject = _Subject.of(model, exported, Log(), random=False)
    module = subject.module
    call = as_padded((tuple(args), in_order(module, kwargs)))
    for limit in beyond(module, call, exported.program, exported.log.findings):
        cases = [_tried(label, subject, changed) for label, changed in limit.calls]
        yield limit, [case for case in cases if isinstance(case, Case)]


def _of_ours(
    module: torch.nn.Module, call: tuple[Any, Any], program: Program, *, hard: bool
) -> Iterator[tuple[str, str, Iterable[tuple[Any, Any]]]]:
    """(label, what it is in words, calls) of what is tried besides the user's own calls.

    The first of the calls that the model takes will do.
    """
    resizings = (resized(module, call, program, plain=plain) for plain in (False, True))
    yield "resized", "at another size", (other for other in resizings if other is not None)
    values = at_hard_values if hard else at_other_values
    for label, changed in values(module, call, program):
        yield label, f"on {label}", (changed,)
    if hard:
        for label, changed in at_hard_sizes(module, call, program):
            yield label, f"at the {label} size", (changed,)
        for label, changed in adversarial(call, HARD):
            yield label, f"on {label}", (changed,)
    if _state_inputs(program):
        yield LATER, "after some calls", (call,)


def _raised(error: BaseException) -> str:
    """Return the model's exception in one line: that of rank 0, where it runs on several."""
    if isinstance(error, FailsOnRanks) and error.__cause__ is not None:
        return _raised(error.__cause__)
    return error_line(error)


def _record_later(label: str, subject: _Subject, call: tuple[Any, Any]) -> Case:
    """The call once more, after `CALLS_BEFORE` calls of it: the state that they led to is fed as inputs."""
    module, program = subject.module, subject.program
    with subject.put_back():
        with undisturbed():
            for _ in range(CALLS_BEFORE if (subject.seconds or 0.0) < SLOW_CALL else LEAST_CALLS):
                called(module, call)
        state = {
            name: state_of(module, program, target).detach().clone() for name, target in _state_inputs(program).items()
        }
        case = _record(label, replace(subject, state=Snapshot.of({"": module})), call)
    # what is called again finds the state before these calls, so nothing is
    return replace(case, roundings=None, inputs=case.inputs | {name: as_array(value) for name, value in state.items()})


def _state_inputs(program: Program) -> dict[str, str]:
    """The inputs that stand for a state which the model changes, with where the model holds it."""
    changed = changed_by(program)
    return {
        entry.name: entry.target for entry in program.inputs if entry.target is not None and entry.target in changed
    }


def _record(label: str, subject: _Subject, call: tuple[Any, Any]) -> Case:
    module, program = subject.module, subject.program
    inputs = {name: as_array(tensor) for name, tensor in fed(module, call, program).items()}
    run = partial(outputs_of, module, call, program)
    other = None if subject.seconds is not None else lambda: outputs_of(module, _others(call), program)
    repeated = twice(run, subject.put_back, subject.state, keeps=not changed_by(program), other=other)
    outputs = repeated.outputs
    with undisturbed():
        draws = _draws(subject, run, outputs) if subject.random else None
        told = replace(repeated, doubts={name: k for name, k in repeated.doubts.items() if name not in (draws or {})})
        report(told, label, place_of_module(module), subject.log)
        exact = _yardstick(subject, call, outputs, {*(draws or {}), *told.doubts})
    again = None if subject.whole is not None else partial(rounded_otherwise, run, outputs, subject.again)
    return Case(label, inputs, outputs, exact, draws, told.doubts, roundings=again)


Record = Callable[[str, _Subject, Call], Case]


def _tried(name: str, subject: _Subject, call: Call, record: Record = _record) -> Case | Exception:
    """The run of a call, or what the model raised for it. A mistake of fxport's own flies on."""
    limit = nullcontext() if subject.seconds is None else patience(subject.program.graph_module, subject.seconds)
    try:
        with limit:
            return record(name, subject, call)
    except Exception as error:
        if is_our_fault(error):
            raise
        return error


def _first(name: str, subject: _Subject, calls: Iterable[Call], record: Record) -> Case | Exception | None:
    """The run of the first call that the model takes; what it raised for the first one if it takes none."""
    failure = None
    for call in calls:
        case = _tried(name, subject, call, record)
        if isinstance(case, Case):
            return case
        failure = failure or case
    return failure


def _yardstick(subject: _Subject, call: tuple[Any, Any], outputs: Arrays, unsteady: Collection[str]) -> Arrays | None:
    """The outputs in float64, without the unsteady ones, whose differences are no rounding errors; None with a finding
    where they cannot be had."""
    try:
        exact = _run_exactly(subject, call)
    except NoYardstickError as why:
        subject.log.report(rules.YARDSTICK_MISSING, at=place_of_module(subject.module), reason=why)
        return None
    # other digits may decide otherwise how many there are of something
    return {name: each for name, each in exact.items() if each.shape == outputs[name].shape and name not in unsteady}


def _draws(subject: _Subject, run: Callable[[], Arrays], first: Arrays) -> Arrays:
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


def _run_exactly(subject: _Subject, call: tuple[Any, Any]) -> Arrays:
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
            with subject.put_back():  # not under the mode of a run, which refuses narrow writes
                outputs = run(module, widened(call), program)
        except Exception as error:  # noqa: BLE001  # the model's own code; what it raises is told
            failures.append(error)
            continue
        return {
            name: array for name, array in outputs.items() if array.dtype == np.float64 or array.dtype.kind in "biu"
        }
    raise NoYardstickError(f"in float64 it fails: {_raised(failures[0])}")
