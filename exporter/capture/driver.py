"""Model and example inputs → Program, by torch.export: strategies in their order, failures as findings."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch.export import ExportedProgram, _trace
from torch.utils import _pytree as pytree

from diagnostics import Level, Log, Place, rules
from diagnostics.source import place_of_exception
from exporter.capture import program
from exporter.capture.arguments.inputs import Leaf, arguments_of, form_of, leaves_of
from exporter.capture.arguments.padded import as_padded
from exporter.capture.attempts import (
    STRATEGIES,
    Call,
    Strategy,
    fixing,
    non_strict,
    sizes_from_one,
    strict,
    values_asked,
)
from exporter.capture.failures import PRESUMED, asks_for_values, first_line, report_failure, report_overcome
from exporter.capture.fake import fake_weights
from exporter.capture.faults import is_our_fault
from exporter.capture.frames import helpers_kept
from exporter.capture.guards.answers import Inquiry, RefusalHidden, answered
from exporter.capture.patches.assignments import assigned_tensors, is_made_anew, place_of_assignment
from exporter.capture.patches.derivatives import require_seen_through
from exporter.capture.patches.known_values import Asked
from exporter.capture.patches.outside import nothing_lost
from exporter.capture.patches.rebinding import RebindingError
from exporter.capture.places import place_of_module
from exporter.capture.sizes.conditions import ROUNDINGS
from exporter.capture.sizes.dimensions import Comparison
from exporter.capture.sizes.from_one import is_small, to_blame
from exporter.capture.sizes.rehearsal import same_results
from exporter.capture.sizes.resizing import away, promised, takes
from exporter.capture.sizes.shapes import axes_of, relaxed, requests_of
from exporter.distributed import is_replicated, wrapped_by
from exporter.options import Options
from exporter.private import DISTRIBUTED
from fx_passes.graph import bodies
from fx_passes.passes.functionalize import unsupported
from fx_passes.private import verify
from fx_passes.program import Program
from fx_passes.python_numbers import numbers_as_python


def capture(
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    options: Options,
    log: Log,
) -> Program:
    """Captures a model as a Program under fake tensors: no weight is copied, no kernel runs.

    `model` is an nn.Module, also one wrapped for distributed training, or an ExportedProgram. What cannot be captured
    is reported and ends the stage; what was asked to be dynamic and became a constant is reported as well.
    """
    if isinstance(model, ExportedProgram):
        return program.from_exported(functional(model), None, [], model, options, log)
    module, kwargs = unwrapped(model), kwargs or {}
    try:
        arguments = arguments_of(module, args, kwargs)
    except (TypeError, ValueError) as error:  # a call that does not fit, and a forward without a signature
        report_failure(error, module, log)
        raise CaptureError(error) from error
    _require_dense(leaves_of(arguments), module, log)
    named = {name: kwargs[name] for name in arguments if name in kwargs}  # PyTorch flattens them as they are written
    args, named = as_padded((args, named))
    axes = axes_of(module, args, named, dynamic_shapes, options.input_names)
    requests = requests_of(arguments, axes)
    call = Call(module, *distinct((args, named), module), requests, relaxed(arguments, requests))
    paths = [leaf.path for leaf in leaves_of(arguments)]
    attempt = partial(_taken, paths=paths, options=options, log=log, attempt=partial(_first_success, options=options))
    taken = attempt(call)
    if taken.compared.contrary:
        call = fixing(call, taken.compared.contrary)
        taken = attempt(call)
    if taken.compared.lost and options.strategy is None and not options.allow_specialization:
        taken = _with_more_sizes(taken, call, paths, options, log)
    if taken.compared.single:
        taken = attempt(fixing(call, taken.compared.single))
    repeat(taken.log, log)
    taken.compared.report(options, log)
    _report_training(module, log)
    return replace(taken.program, conditions=tuple(taken.compared.conditions))


def repeat(told: Log, log: Log) -> None:
    """Reports in a log what has been reported in another one."""
    for finding in told.findings:
        facts: Mapping[str, Any] = finding.facts
        log.report(finding.rule, at=finding.place, level=finding.level, **facts)


@dataclass(frozen=True)
class Taken:
    """One capture: the program, and what became of the requested sizes.

    `log` holds what is to be told about it if it is the one that is used.
    """

    program: Program
    compared: Comparison
    log: Log


VALUES = "values that Python asks for"
"""The way of capture that knows the values of weights, and if it may, of inputs."""

Attempt = Callable[[Call, Log], ExportedProgram]


def _taken(call: Call, paths: Sequence[str], options: Options, log: Log, attempt: Attempt) -> Taken:
    told = Log()
    fakes, frames = fake_weights(call.model), helpers_kept()
    state, numbers = nothing_lost(call.model, told), numbers_as_python()
    texts: list[Place] = []
    asked: list[Asked] = []
    inquiry = Inquiry()
    try:
        with answered(inquiry), numbers, assigned_tensors() as assigned, state as effects, fakes, frames, _quiet():
            exported = attempt(replace(call, effects=effects, texts=texts, asked=asked, inquiry=inquiry), log)
    except CaptureError:
        repeat(told, log)  # what it has left behind
        raise
    for path in sorted(set(assigned)):  # PyTorch names them in no order
        if not is_made_anew(call.model, path):
            told.report(rules.STATE_LOST, at=place_of_assignment(call.model, path), name=path)
    for place in texts:
        told.report(rules.VALUE_MADE_TEXT, at=place)
    for name in sorted(set().union(*(each.names for each in asked))):
        first = next(each for each in asked if name in each.names)
        told.report(rules.VALUES_SPECIALIZED, at=first.place, name=name)
    captured = program.from_exported(exported, paths, call.requests, call.model, options, told)
    return Taken(captured, Comparison(captured, call.requests, inquiry.guards, call.fixed), told)


def _with_more_sizes(taken: Taken, call: Call, paths: Sequence[str], options: Options, log: Log) -> Taken:
    """A capture that has lost fewer sizes, if there is one.

    A model may treat the example's size apart, such as positions that fit as they are; at another size it goes the
    general way. And where Python's `int` makes a number of a size, Dynamo knows to keep the expression.
    """
    lost = taken.compared.lost
    causes = [guard for _, guard in lost if guard is not None]
    fixing = {(guard.place.path, guard.place.line) for guard in causes if guard.place is not None}
    tries: list[tuple[str, Call, Strategy]] = []
    asked = [request for request, _ in lost if request.size != 0]  # of none there is nothing to make more of
    if asked and any(not guard.counted for guard in causes):
        example = (call.args, dict(call.kwargs))
        args, kwargs = away(call.model, example, taken.program, asked)
        tries.append(("non-strict at another size", replace(call, args=args, kwargs=kwargs), non_strict))
    if any(guard.condition.has(*ROUNDINGS) for guard in causes):
        tries.append(("strict", call, strict))
    for name, other, strategy in tries:
        try:
            found = _taken(other, paths, options, log, lambda each, _, run=strategy: functional(run(each)))
        except Exception as error:  # the model may not run at that size; the first capture stands
            if is_our_fault(error):
                raise
            at = place_of_exception(error)
            if at is not None and (at.path, at.line) in fixing:
                continue  # what fixes the size is what fails at another one, and is told
            log.report(rules.OTHER_CAPTURE_FAILED, at=at, strategy=name, error=first_line(error))
            continue
        if len(found.compared.lost) >= len(taken.compared.lost):
            continue
        if not right_at_example(found, call):
            error = "it does not hold for the example, or is not seen to give the same there"
            log.report(rules.OTHER_CAPTURE_FAILED, at=place_of_module(call.model), strategy=name, error=error)
        else:
            request, guard = lost[0]
            error = f"it holds for one size of '{request.label}' of '{request.input}'"
            place = guard.place if guard is not None else None
            log.report(rules.CAPTURE_FELL_BACK, at=place, strategy=name, failed="non-strict", error=error)
            taken = found
    return taken


def right_at_example(found: Taken, call: Call) -> bool:
    """Whether a program that was captured at another size is one for the example as well.

    A model that treats the example's size apart may do something else there than in general. Where the conditions of
    the capture leave that size out, both are run and compared.
    """
    example = (call.args, dict(call.kwargs))
    program = replace(found.program, conditions=tuple(found.compared.conditions))
    if not takes(call.model, example, program):
        return False
    return promised(call.model, example, program) or same_results(call.model, example, program)


def functional(exported: ExportedProgram) -> ExportedProgram:
    """The program in a form whose writes the passes can rewrite.

    Nearly every program is; only one with an autocast region at any depth, or with a write through a view that has no
    inverse, is traced again by PyTorch, with all its ops kept whole.
    """
    if _sets_autocast(exported.graph_module) or unsupported(exported.graph_module):
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # PyTorch's, about how it writes its own autocast regions
            return exported.run_decompositions({})
    return exported


def _sets_autocast(gm: torch.fx.GraphModule) -> bool:
    """Whether autocast is turned on or off in the graph or in a body; around control flow it stays a pair of calls."""
    calls = (torch.ops.higher_order.wrap_with_autocast, torch.amp.autocast_mode._enter_autocast)
    if any(node.target in calls for node in gm.graph.nodes):
        return True
    return any(_sets_autocast(body) for _, body in bodies(gm))


def unwrapped(model: Any) -> torch.nn.Module:
    """The module inside wrappers that change how a model is trained or compiled, but not what it computes.

    Where a wrapper stands further inside, or has hooks, it is a new module without any, with the model's own tensors.
    """
    while (attribute := wrapped_by(model)) is not None and not (model._forward_hooks or model._forward_pre_hooks):
        model = getattr(model, attribute)
    if not isinstance(model, torch.nn.Module) or not any(map(_is_wrapped, model.modules())):
        return model
    verify(DISTRIBUTED)
    from exporter.distributed.skeleton import skeleton_of

    return skeleton_of(model).module


def _is_wrapped(module: torch.nn.Module) -> bool:
    return wrapped_by(module) is not None or is_replicated(type(module))


def distinct(call: tuple[Any, Any], module: torch.nn.Module) -> tuple[Any, Any]:
    """The call with a copy for every tensor that is passed a second time, or is one of the module's own.

    PyTorch would take the two for one input, and the weight for what is fed. One with a history of gradients is copied
    without it: PyTorch warns of those.
    """
    seen = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}

    def once(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in seen or not tensor.is_leaf:
            return tensor.detach().clone().requires_grad_(tensor.requires_grad)
        seen.add(id(tensor))
        return tensor

    return pytree.tree_map_only(torch.Tensor, once, call)


@contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch's own words on a failing capture, graphs included, say less than the finding that follows.

    Who sets TORCH_LOGS wants to read them, and does.
    """
    if "TORCH_LOGS" in os.environ:
        yield
        return
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    silent = mock.patch.object(_trace, "print", create=True)  # it prints the graph of a failed trace to stderr
    try:
        with silent:
            yield
    finally:
        logger.setLevel(level)


def _first_success(call: Call, log: Log, options: Options) -> ExportedProgram:
    failures: list[tuple[str, Exception]] = []
    state = call.effects.state.anew()
    for name, strategy in _strategies(call, options, failures):
        call.inquiry.guards.clear()
        try:
            exported = functional(require_seen_through(strategy(call)))
        except Exception as error:  # whatever a capture raises becomes a finding below
            if is_our_fault(error):
                raise
            failures.append((name, error))
            call.effects.note(state)
            state.restore()
            if is_final(error):
                break
        else:
            for failed, error in failures:
                place = place_of_exception(error)
                log.report(rules.CAPTURE_FELL_BACK, at=place, strategy=name, failed=failed, error=first_line(error))
            for place, error in call.inquiry.presumed.answers.items():
                told: Mapping[str, Any] = {"detail": PRESUMED, "error": first_line(error)}
                log.report(rules.DATA_DEPENDENT_CONTROL_FLOW, at=place, level=Level.WARNING, **told)
            for error in call.overcome:
                report_overcome(error, call.model, log)
            return exported
    error = _telling(failures, options)
    report_failure(error, call.model, log)
    raise CaptureError(error) from error


def _telling(failures: Sequence[tuple[str, Exception]], options: Options) -> Exception:
    """The failure to report: that of the first way, or what was left where the values of all inputs were known."""
    left = (error for name, error in failures if name == VALUES and options.allow_specialization)
    return next(left, failures[0][1])


class CaptureError(Exception):
    """Nothing captured the model; the log says why. Ends the stage of capture."""


def is_final(error: Exception) -> bool:
    """Whether no other strategy can do better: the example inputs do not fit, or the model's own code raised."""
    place = place_of_exception(error)
    return isinstance(error, FINAL) or (isinstance(error, TypeError) and place is None)


FINAL = (RefusalHidden, RebindingError)
"""What another strategy would not see, and pass in silence."""


def _strategies(
    call: Call, options: Options, failures: Sequence[tuple[str, Exception]]
) -> Iterator[tuple[str, Strategy]]:
    """One after the other, with what has failed before as the reason to try some of them."""
    if options.strategy is not None:
        yield options.strategy, dict(STRATEGIES)[options.strategy]
        return
    # What holds for some data need not hold for none: an example without any is no ground to let a size vary.
    call.fixed.update(dict.fromkeys(each for each in call.requests if each.size == 0 and not each.required))
    if any(is_small(each) and each not in call.fixed for each in call.requests):
        yield from _from_one(call, failures)
    first, *others = STRATEGIES
    yield first
    if options.allow_specialization or asks_for_values(failures[-1][1]):
        yield VALUES, partial(values_asked, inputs=options.allow_specialization)
    yield from others


def _from_one(call: Call, failures: Sequence[tuple[str, Exception]]) -> Iterator[tuple[str, Strategy]]:
    """Small sizes as dynamic ones; where that fails, without those that the error speaks of, as often as it tells."""
    yield "some sizes from one" if call.fixed else "sizes from one", sizes_from_one
    while True:
        error = failures[-1][1]
        blamed = [each for each in to_blame(error, call.inquiry.env, call.requests) if each not in call.fixed]
        if not blamed:
            return
        call.fixed.update(dict.fromkeys(blamed, place_of_exception(error)))
        yield "some sizes from one", sizes_from_one


def _require_dense(leaves: Sequence[Leaf], module: torch.nn.Module, log: Log) -> None:
    """Inputs of the ONNX model are dense tensors; PyTorch would trace others as what they are not."""
    forms = [form for leaf in leaves if (form := form_of(leaf.value)) is not None]
    for form in forms:
        log.report(rules.UNSUPPORTED_VALUE, at=place_of_module(module), name="inputs", type=form)
    if forms:
        raise CaptureError(f"inputs that are stored as {', '.join(sorted(set(forms)))}")


def _report_training(module: torch.nn.Module, log: Log) -> None:
    """A dropout or batch norm in training mode behaves so in the ONNX model too, which is seldom what was meant."""
    kinds = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._BatchNorm)
    for name, child in module.named_modules():
        if isinstance(child, kinds) and child.training:
            log.report(rules.TRAINING_MODE_CAPTURED, at=place_of_module(module, name), op=type(child).__name__)
