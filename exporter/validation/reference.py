"""Eager PyTorch's results for the example inputs and for inputs of other sizes: the references of validation."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from fxport.diagnostics import Level, Log, rules
from fxport.diagnostics.exhaustion import raise_if_exhausted
from fxport.exporter.capture.arguments.keywords import in_order
from fxport.exporter.capture.arguments.padded import as_padded
from fxport.exporter.capture.places import place_of_module
from fxport.exporter.capture.self_check.inputs import drawn
from fxport.exporter.capture.sizes.resizing import at_hard_sizes, resized
from fxport.exporter.capture.sizes.values import at_hard_values, at_other_values
from fxport.exporter.onnx_program import OnnxProgram
from fxport.exporter.validation.adversarial import ONLY_FINITE, adversarial, table_of
from fxport.exporter.validation.equals import FIRST, OWN, is_settled
from fxport.exporter.validation.recording import (
    LATER,
    Call,
    Case,
    Subject,
    first_taken,
    raised,
    record,
    record_later,
    state_inputs,
    tried,
)
from fxport.exporter.validation.runs import changed_by
from fxport.exporter.validation.sizes import Beyond, at_edges, at_nothing, beyond
from fxport.fx_passes.program import Program
from fxport.fx_passes.randomness import draws_numbers
from fxport.ort_runner.dtypes import FLOAT, element_of
from fxport.ort_runner.samples import Samples
from fxport.ort_runner.shown import NO_ELEMENTS, NO_NUMBERS, nothing_shown

WARM_UP = 3.0
"""The most that the first run may cost, in others: it loads libraries and asks for memory."""

NONE_FURTHER: Mapping[str, tuple[tuple[Any, ...], Mapping[str, Any]]] = MappingProxyType({})


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
    Values that show more (see `adversarial`) and sizes at the edge of what dynamic dimensions promise (see `at_edges`)
    follow, as many as `seconds` pay for.

    With `hard`, all of these, also at the smallest, the largest and a prime size, and on zeros, NaN and other values
    that kernels get wrong, see `at_hard_sizes`, `at_hard_values` and `adversarial`. Inputs of ours that eager PyTorch
    refuses are reported as ValidationSkipped, the user's as InputMismatch; further sizes that it refuses are nobody's
    fault. The model's state is afterwards what it was. `whole` is what computes in float64 where `model` runs on
    several ranks: the same model in one process.
    """
    random = draws_numbers(exported.program.graph_module)
    subject = Subject.of(model, exported, log, random=random, whole=whole)
    module = subject.module
    call = as_padded((tuple(args), in_order(module, kwargs)))
    start = time.perf_counter()
    first = record(label, subject, call)
    cost = time.perf_counter() - start
    yield first
    told = [first]
    for name, (others, named) in further.items():
        case = tried(name, subject, (tuple(others), in_order(module, named)))
        if isinstance(case, Exception):
            raise_if_exhausted(case)
            at = place_of_module(module)
            log.report(rules.INPUT_MISMATCH, at=at, name=name, error=raised(case), sample=name)
            continue
        told.append(case)
        yield case
    subject = replace(subject, seconds=cost)
    for name, how, tries in _of_ours(module, call, exported.program, hard=hard):
        recorder, start = record_later if name == LATER else record, time.perf_counter()
        case = first_taken(name, subject, tries, recorder)
        if case is None:
            continue
        if isinstance(case, Exception):
            reason = f"eager PyTorch fails {how}: {raised(case)}"
            log.report(rules.VALIDATION_SKIPPED, at=place_of_module(module), level=Level.NOTE, name=name, reason=reason)
            continue
        cost = min(cost, time.perf_counter() - start)  # the first was a warm-up, too
        told.append(case)
        yield case
    if any(nothing_shown([case.samples() for case in told])):
        yield from _at_drawn(subject, call)
    yield from _further(subject, call, cost, math.inf if hard else seconds)


def _at_drawn(subject: Subject, call: tuple[Any, Any]) -> Iterator[Case]:
    """A run on drawn values, for an example of which the results tell nothing, such as ones everywhere."""
    case = tried("drawn", subject, next(drawn([call]))[1])
    if isinstance(case, Case):  # the model may refuse values of ours
        yield case


def _further(subject: Subject, call: Call, cost: float, seconds: float) -> Iterator[Case]:
    """The runs at values and at sizes of ours, in turn, as long as another one of that cost can be paid for. The first
    is made, too, where the cost is known of a first run alone, and may have been that of a warm-up.

    What the model refuses is its own matter; it is told where time is without bound, as the user has asked for them.
    """
    if seconds * WARM_UP < cost:
        return
    start = last = time.perf_counter()
    is_extra = seconds < math.inf
    for each in chain.from_iterable(
        zip_longest(_at_values(subject, call, hard=not is_extra), _at_edges(subject, call))
    ):
        now = time.perf_counter()
        if isinstance(each, Case):
            cost = min(cost, now - last)
            yield replace(each, is_extra=is_extra)
        last = now
        if now - start + cost > seconds:
            return
    if not is_extra and subject.takes_nothing:
        yield from _at_nothing(subject, call)


def _at_values(subject: Subject, call: Call, *, hard: bool) -> Iterator[Case | None]:
    """The runs on values that show more. Of equal elements the first is taken, as in ONNX; None where there is no run.

    By default there are none where results are open for other reasons, nor of a training step.
    """
    program, module = subject.program, subject.module
    parameters = {name for name, _ in module.named_parameters()}
    if not hard and (subject.random or parameters & changed_by(program) or not is_settled(program)):
        return
    made = replace(subject, equals=FIRST if subject.chooses else OWN, log=subject.log if hard else Log())
    for label, tries in adversarial(module, call, program, table_of(program, hard=hard)):
        first = tried(label, made, tries[0])
        if isinstance(first, Exception) and hard:
            reason = f"eager PyTorch fails on {label}: {raised(first)}"
            facts = {"level": Level.NOTE, "name": label, "reason": reason}
            subject.log.report(rules.VALIDATION_SKIPPED, at=place_of_module(module), **facts)
        found = [first] if isinstance(first, Case) else [tried(label, made, each) for each in tries[1:]]
        taken = [case for case in found if isinstance(case, Case) and not case.doubts]
        kept = [case for case in taken if hard or label not in ONLY_FINITE or _is_finite(case)]
        yield from (replace(case, is_made=True) for case in kept)
        if not kept:
            yield None


def _is_finite(case: Case) -> bool:
    """Return True if all outputs are numbers."""
    floats = [each for each in case.outputs.values() if element_of(each.dtype).kind == FLOAT]
    return all(bool(np.isfinite(each.astype(np.float64)).all()) for each in floats)


def _at_edges(subject: Subject, call: Call) -> Iterator[Case | None]:
    """The runs at sizes of `at_edges`; None where the results tell nothing: that is the model's own matter."""
    for label, changed in at_edges(subject.module, call, subject.program):
        case = tried(label, subject, changed)
        yield case if isinstance(case, Case) and tells(case.samples()) else None


def tells(samples: Samples) -> bool:
    """Return True if the results at a size of ours are worth a comparison.

    An output that is NaN everywhere, or empty, says that the model is not made for that size. One number everywhere
    comes from statistics over one element, and beside it others may be nothing but its rounding errors.
    """
    found = [*nothing_shown([samples])]
    is_undefined = any(detail in {NO_ELEMENTS, NO_NUMBERS} for _, detail in found)
    return not found or not (is_undefined or len(found) < len(samples.outputs))


def _at_nothing(subject: Subject, call: Call) -> Iterator[Case]:
    """The runs at sizes of 0: ONNX Runtime may refuse them where PyTorch does not, but give nothing else."""
    for label, changed in at_nothing(subject.module, call, subject.program):
        case = tried(label, subject, changed)
        if isinstance(case, Case) and all(detail == NO_ELEMENTS for _, detail in nothing_shown([case.samples()])):
            yield replace(case, may_fail=True)


def cases_beyond(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, exported: OnnxProgram
) -> Iterator[tuple[Beyond, Sequence[Case]]]:
    """The runs of eager PyTorch at sizes that a limit of a dimension excludes, as far as it takes them."""
    subject = Subject.of(model, exported, Log(), random=False)
    module = subject.module
    call = as_padded((tuple(args), in_order(module, kwargs)))
    for limit in beyond(module, call, exported.program, exported.log.findings):
        cases = [tried(label, subject, changed) for label, changed in limit.calls]
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
    if state_inputs(program):
        yield LATER, "after some calls", (call,)
