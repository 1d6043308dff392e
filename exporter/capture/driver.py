"""Model and example inputs → Program, by torch.export: attempts in their order, failures as findings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.export import ExportedProgram

from fxport.diagnostics import Fix, Level, Log, rules
from fxport.diagnostics.exhaustion import raise_if_exhausted
from fxport.diagnostics.source import place_of_exception
from fxport.exporter.capture import program
from fxport.exporter.capture.arguments.inputs import Leaf, arguments_of, distinct, form_of, leaves_of
from fxport.exporter.capture.arguments.padded import as_padded
from fxport.exporter.capture.attempts import (
    ATTEMPTS,
    VALUES,
    Attempt,
    Failed,
    Strategy,
    by_example,
    is_over,
    non_strict,
    strict,
)
from fxport.exporter.capture.branched import with_branches_on_sizes
from fxport.exporter.capture.exported import captured_before
from fxport.exporter.capture.failures import (
    CHOICE,
    DRAW_BEFORE,
    PRESUMED,
    PRESUMED_NONE,
    RANK,
    SEEDED,
    TRUTH,
    first_line,
    reason_of,
    report_failure,
    report_overcome,
)
from fxport.exporter.capture.fake import fake_weights
from fxport.exporter.capture.faults import RefusedError, is_our_fault
from fxport.exporter.capture.frames import helpers_kept
from fxport.exporter.capture.functional import copied, functional
from fxport.exporter.capture.further import further_failures
from fxport.exporter.capture.guards.answers import Inquiry, answered
from fxport.exporter.capture.guards.layout_reads import layout_read_by
from fxport.exporter.capture.guards.presence import Presumed
from fxport.exporter.capture.patches.assignments import assigned_tensors, is_made_anew, place_of_assignment
from fxport.exporter.capture.patches.bookkeeping import layouts_undescribed
from fxport.exporter.capture.patches.derivatives import require_seen_through
from fxport.exporter.capture.patches.memory_given import require_own_memory
from fxport.exporter.capture.patches.outside import nothing_lost, place_of_effect
from fxport.exporter.capture.patches.quiet import quiet_pytorch
from fxport.exporter.capture.places import Around, place_of_module
from fxport.exporter.capture.regions import without_regions
from fxport.exporter.capture.request import CaptureRequest, Observed
from fxport.exporter.capture.results import (
    CaptureResult,
    checked_result,
    repeat,
    told_of_sizes,
    unlike_at_example,
)
from fxport.exporter.capture.self_check.assumed import choices_of_example
from fxport.exporter.capture.self_check.layouts import report_layouts
from fxport.exporter.capture.self_check.trials import compared_at_sizes
from fxport.exporter.capture.sizes.bits import power_guards
from fxport.exporter.capture.sizes.conditions import ROUNDINGS
from fxport.exporter.capture.sizes.copies import copies_unwritten
from fxport.exporter.capture.sizes.idle_bodies import always_run
from fxport.exporter.capture.sizes.last_bits import last_bit_guards
from fxport.exporter.capture.sizes.memory_conditions import memory_guards
from fxport.exporter.capture.sizes.numbers_told import report_numbers
from fxport.exporter.capture.sizes.ranks import keep_axes_of_data
from fxport.exporter.capture.sizes.rehearsal import same_results
from fxport.exporter.capture.sizes.resizing import away
from fxport.exporter.capture.sizes.shapes import axes_of, relaxed, requests_of
from fxport.exporter.capture.sizes.zero_one_specialization import is_small, to_blame
from fxport.exporter.capture.wrappers import unwrapped
from fxport.exporter.pipeline.options import Options
from fxport.fx_passes.program import Program
from fxport.fx_passes.python_numbers import numbers_as_python
from fxport.fx_passes.randomness import draws_numbers


def capture(
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    options: Options,
    log: Log,
    *,
    accepts: Callable[[Program], bool] | None = None,
) -> Program:
    """Capture a model as a Program under fake tensors: no weight is copied, no kernel runs.

    `model` is an nn.Module, also one wrapped for distributed training, or an ExportedProgram. What cannot be captured
    is reported and ends the stage; what was asked to be dynamic and became a constant is reported as well. `accepts`
    tells of a program with branches on sizes whether all of it has a lowering: there is one without, of fewer sizes.
    """
    if isinstance(model, ExportedProgram):
        return captured_before(model, args, kwargs or {}, dynamic_shapes, options, log)
    module, kwargs = unwrapped(model), kwargs or {}
    try:
        arguments = arguments_of(module, args, kwargs)
    except (TypeError, ValueError) as error:  # a call that does not fit, and a forward without a signature
        report_failure(error, module, log)
        raise CaptureError(error) from error
    _require_dense(leaves_of(arguments), module, log)
    named = {name: kwargs[name] for name in arguments if name in kwargs}  # PyTorch flattens them as they are written
    args, named = call = as_padded((args, named))
    axes = axes_of(module, args, named, dynamic_shapes, options.input_names)
    sizes = requests_of(arguments, axes)
    shapes, may_ask = relaxed(arguments, sizes), options.allow_specialization
    request = CaptureRequest(module, *distinct(call, module), sizes, shapes, may_ask, options.reuse, options.rewrite)
    once = partial(_capture_once, paths=[leaf.path for leaf in leaves_of(arguments)], options=options, log=log)
    first_success = partial(_first_success, options=options, log=log)

    def first(request: CaptureRequest) -> CaptureResult:
        try:
            return once(request, capture=first_success)
        except RefusedError as error:  # of what the program shows; those of attempts are told already
            report_failure(error, module, log)
            raise CaptureError(error) from error

    result = first(request)
    if result.compared.contrary:
        request = result.request.fixing(result.compared.contrary)
        result = first(request)
    fixed = result.request.fixed
    tried = Log()
    if result.compared.lost and options.strategy is None and not options.allow_specialization:
        result = _with_more_sizes(result, replace(request, fixed=fixed), once, tried)
    if contrary := choices_of_example(result.log.findings, request.model, (request.args, dict(request.kwargs))):
        result = first(replace(result.request, contrary=contrary))
    if single := {size: at for size, at in result.compared.single.items() if may_ask or not size.required}:
        result = first(request.fixing({**fixed, **single}))
    _report_training(module, log)
    checked = partial(checked_result, passed=call, example=(request.args, dict(request.kwargs)), options=options)
    if options.strategy is None and options.self_check != "never":
        again = partial(once, capture=partial(_by_one, by_example))
        found = with_branches_on_sizes(result, again, partial(told_of_sizes, options=options), checked)
        if found is not None and (accepts is None or accepts(found[0])):
            repeat(found[1].findings, log)
            return found[0]
    repeat(tried.findings, log)
    return checked(result, log)


Capture = Callable[[CaptureRequest, Observed], tuple[ExportedProgram, CaptureRequest]]
"""Captures, and returns with the program what it was captured for."""


def _capture_once(
    request: CaptureRequest, *, capture: Capture, paths: Sequence[str], options: Options, log: Log
) -> CaptureResult:
    """Run a capture with everything observed that it may lose of the model."""
    told, inquiry = Log(), Inquiry(presumed=Presumed(contrary=request.contrary))
    model, fakes, frames = request.model, fake_weights(request.model), helpers_kept()
    state, numbers = nothing_lost(model, told), numbers_as_python()
    described = nullcontext() if options.keep_exported_program else layouts_undescribed()
    try:
        with (
            answered(inquiry, (always_run,)),
            numbers,
            described,
            assigned_tensors() as assigned,
            state as effects,
            fakes,
            frames,
            quiet_pytorch(),
        ):
            observed = Observed(effects, inquiry)
            exported, request = capture(request, observed)
    except CaptureError:
        repeat(told.findings, log)  # what it has left behind
        raise
    for path in sorted({*assigned, *observed.lost}):  # PyTorch names them in no order
        if not is_made_anew(model, path):
            told.report(rules.STATE_LOST, at=place_of_assignment(model, path), name=path)
    for effect in effects.lost({*assigned, *observed.lost}):
        at = place_of_effect(model, effect, [*effects.state.functions()])
        told.report(effect.rule, at=at, name=effect.name, value=effect.before, was=effect.was)
    for place in observed.texts:
        told.report(rules.VALUE_MADE_TEXT, at=place)
    for name in sorted(set().union(*(each.names for each in observed.asked))):
        first = next(each for each in observed.asked if name in each.names)
        told.report(rules.VALUES_SPECIALIZED, at=first.place, name=name)
    presumed = observed.inquiry.presumed
    for place, error in presumed.answers.items():
        detail = PRESUMED_NONE if place in request.contrary else PRESUMED
        known: dict[str, Any] = {"detail": detail, "error": reason_of(error, model)}
        if place in presumed.truths:
            known[TRUTH] = presumed.truths[place]
        if any(place == asked for _, asked in presumed.numbers.values()):
            known[CHOICE] = True
        told.report(rules.DATA_DEPENDENT_CONTROL_FLOW, at=place, level=Level.WARNING, **known)
    for error in observed.overcome:
        report_overcome(error, model, told)
    if draws_numbers(exported.graph_module):
        for place in effects.reads.seeded.values():
            told.report(rules.UNSUPPORTED_PYTHON_CONSTRUCT, at=place, fixes=(Fix(DRAW_BEFORE),), detail=SEEDED)
    before = copied(exported) if options.keep_exported_program else None
    captured = replace(program.from_exported(exported, paths, request.sizes, model, options, told), exported=before)
    if observed.copied and not same_results(request.model, (request.args, dict(request.kwargs)), captured):
        return _capture_once(replace(request, reuse=False), capture=capture, paths=paths, options=options, log=log)
    ranks = [*dict.fromkeys(keep_axes_of_data(captured))]
    for place in ranks:
        facts: Mapping[str, Any] = {"detail": RANK, "error": RANK}
        told.report(rules.DATA_DEPENDENT_CONTROL_FLOW, at=place, level=Level.WARNING, **facts)
    report_numbers(captured, told)
    given_up = [(place_of_exception(each), reason_of(each, model)) for each in observed.given_up]
    compared = compared_at_sizes(captured, request, observed, given_up, told)
    report_layouts(request, observed, captured, told)
    rewritten = (each.place for each in observed.rewritten)
    below = [place_of_module(model)] if observed.below_autograd and not isinstance(model, Around) else []
    changed = [*rewritten, *inquiry.presumed.answers, *inquiry.always, *ranks, *observed.texts, *below]
    return CaptureResult(captured, request, compared, told, changed)


def _with_more_sizes(
    result: CaptureResult, request: CaptureRequest, once: Callable[..., CaptureResult], log: Log
) -> CaptureResult:
    """Return a capture that has lost fewer sizes, if there is one, else the one that is given.

    A model may treat the example's size apart, such as positions that fit as they are; at another size it runs the
    general code. And where Python's `int` makes a number of a size, Dynamo knows to keep the expression.
    """
    lost = result.compared.lost
    causes = [guard for _, guard in lost if guard is not None]
    fixing = {(guard.place.path, guard.place.line) for guard in causes if guard.place is not None}
    tries: list[tuple[str, CaptureRequest, Strategy]] = []
    asked = [size for size, _ in lost if size.size != 0]  # of none there is nothing to make more of
    if (asked and any(not guard.counted for guard in causes)) or any(
        map(is_small, asked)
    ):  # of small ones, no turn ran
        call, equations = (request.args, dict(request.kwargs)), result.compared.equations
        args, kwargs = away(request.model, call, result.program, asked, equations)
        tries.append(("non-strict at another size", replace(request, args=args, kwargs=kwargs), non_strict))
    if any(guard.condition.has(*ROUNDINGS) for guard in causes):
        tries.append(("strict", request, strict))
    for name, other, strategy in tries:
        try:
            found = once(other, capture=partial(_by_one, strategy))
        except Exception as error:  # the model may not run at that size; the first capture stands
            if is_our_fault(error):
                raise
            at = place_of_exception(error)
            if at is not None and (at.path, at.line) in fixing:
                continue  # what fixes the size is what fails at another one, and is told
            log.report(rules.OTHER_CAPTURE_FAILED, at=at, strategy=name, error=first_line(error))
            continue
        if len(found.compared.lost) >= len(result.compared.lost):
            continue
        if error := unlike_at_example(found, request):
            log.report(rules.OTHER_CAPTURE_FAILED, at=place_of_module(request.model), strategy=name, error=error)
        else:
            size, guard = lost[0]
            error = f"it holds for one size of '{size.label}' of '{size.input}'"
            place = guard.place if guard is not None else None
            log.report(rules.CAPTURE_FELL_BACK, at=place, strategy=name, failed="non-strict", error=error)
            result = found
    return result


def _by_one(strategy: Strategy, request: CaptureRequest, observed: Observed) -> tuple[ExportedProgram, CaptureRequest]:
    return _checked(strategy, request, observed), request


def _checked(strategy: Strategy, request: CaptureRequest, observed: Observed) -> ExportedProgram:
    """Return what was captured, with the sizes at which its writes mean what they do, in a form that passes take."""
    exported = without_regions(require_seen_through(strategy(request, observed)))
    inquiry = observed.inquiry
    if inquiry.relies_on_copies and not (copies_unwritten(exported) and _is_memory_unread(observed)):
        inquiry.forbid_copies()
        exported = without_regions(require_seen_through(strategy(request, observed)))
    inquiry.guards.extend(memory_guards(exported, inquiry.guards))
    inquiry.guards.extend(power_guards(exported))
    inquiry.guards.extend(last_bit_guards(exported))
    return require_own_memory(functional(exported, inquiry.guards, observed.unkept))


def _is_memory_unread(observed: Observed) -> bool:
    """Return whether no function of the user's tells a copy from the tensor itself, as by `is`."""
    return not any(map(layout_read_by, observed.effects.state.functions()))


def _first_success(
    request: CaptureRequest, observed: Observed, options: Options, log: Log
) -> tuple[ExportedProgram, CaptureRequest]:
    """Try one attempt after the other, and report what made the first ones fail; raise CaptureError if all do."""
    failed: list[Failed] = []
    state, start = observed.effects.state.anew(), time.monotonic()
    for attempt, tried in _tried(request, options, failed):
        observed.inquiry.guards.clear()
        observed.below_autograd.clear()
        try:
            exported = _checked(attempt.capture, tried, observed)
        except Exception as error:  # whatever a capture raises becomes a finding below
            if is_our_fault(error):
                raise
            small = to_blame(error, observed.inquiry.env, tried.sizes)
            blamed = [each for each in small if each not in tried.fixed]
            failed.append(Failed(attempt.name, tried, error, blamed, observed.asks_for_gradients))
            observed.effects.note(state)
            state.restore()
        else:
            _report_fallbacks(attempt, failed, log)
            observed.given_up[:] = [each.error for each in failed]
            return exported, tried
    error = _telling(failed, options)
    raise_if_exhausted(error)
    report_failure(error, request.model, log)
    stopped = {finding.rule for finding in log.findings if finding.level is Level.ERROR}
    if options.strategy is None and rules.DATA_DEPENDENT_CONTROL_FLOW in stopped:
        _report_further(failed[-1].request, error, observed, time.monotonic() - start, log)
    raise CaptureError(error) from error


def _report_further(request: CaptureRequest, error: Exception, observed: Observed, taken: float, log: Log) -> None:
    """Report what would show once the line that a failure is about is mended, as far as that explains itself."""
    state = observed.effects.state.anew()

    def again(request: CaptureRequest) -> None:
        try:
            non_strict(request, observed)
        finally:
            observed.effects.note(state)
            state.restore()

    for further in further_failures(request, error, again, taken):
        told = Log()
        report_failure(further, request.model, told)
        if not any(finding.rule is rules.CAPTURE_FAILED for finding in told.findings):
            repeat(told.findings, log)


def _tried(
    request: CaptureRequest, options: Options, failed: Sequence[Failed]
) -> Iterator[tuple[Attempt, CaptureRequest]]:
    """Yield each attempt with what it is asked for, as long as those before it are added to `failed`."""
    if options.strategy is not None:
        yield {attempt.name: attempt for attempt in ATTEMPTS}[options.strategy], request
        return
    # What holds for some data need not hold for none: an example without any is no ground to let a size vary.
    request = request.fixing(dict.fromkeys(each for each in request.sizes if each.size == 0 and not each.required))
    for attempt in ATTEMPTS:
        while not is_over(attempt, failed) and (tried := attempt.request(request, failed)) is not None:
            yield attempt, tried
            if not attempt.repeats:
                break


def _report_fallbacks(attempt: Attempt, failed: Sequence[Failed], log: Log) -> None:
    """Report what made the attempts before this one fail."""
    for each in failed:
        place, told = place_of_exception(each.error), reason_of(each.error, each.request.model)
        log.report(rules.CAPTURE_FELL_BACK, at=place, strategy=attempt.name, failed=each.name, error=told)


def _telling(failed: Sequence[Failed], options: Options) -> Exception:
    """Return the failure to report: the first, or what was left where the values of all inputs were known.

    What no attempt can do better at comes before both.
    """
    final = (each.error for each in failed if isinstance(each.error, RefusedError))
    left = (each.error for each in failed if each.name == VALUES and options.allow_specialization)
    return next(final, next(left, failed[0].error))


class CaptureError(Exception):
    """Nothing captured the model; the log says why. Ends the stage of capture."""


def _require_dense(leaves: Sequence[Leaf], module: torch.nn.Module, log: Log) -> None:
    """Report inputs that are no dense tensors, which PyTorch would trace as what they are not; raise CaptureError."""
    forms = [form for leaf in leaves if (form := form_of(leaf.value)) is not None]
    for form in forms:
        log.report(rules.UNSUPPORTED_VALUE, at=place_of_module(module), name="inputs", type=form)
    if forms:
        raise CaptureError(f"inputs that are stored as {', '.join(sorted(set(forms)))}")


def _report_training(module: torch.nn.Module, log: Log) -> None:
    """Report dropout and batch norm in training mode, which behave so in the ONNX model too."""
    kinds = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._BatchNorm)
    for name, child in module.named_modules():
        if isinstance(child, kinds) and child.training:
            log.report(rules.TRAINING_MODE_CAPTURED, at=place_of_module(module, name), op=type(child).__name__)
