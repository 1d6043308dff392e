"""Attempts to capture a model by torch.export: a table, with what is set up around each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram, _trace
from torch.fx.experimental import _config as shape_config

from fxport.diagnostics.source import place_of_exception
from fxport.exporter.capture.contexts import post_dispatch_contexts, pre_dispatch_contexts, within
from fxport.exporter.capture.control_flow.escaped import LENDING, constants_owned, require_given
from fxport.exporter.capture.control_flow.recapture import keeping_loops
from fxport.exporter.capture.control_flow.replaced import replaced_unwritten
from fxport.exporter.capture.failures import asks_for_values
from fxport.exporter.capture.faults import RefusedError, causes_of, is_about_gradients, is_our_fault
from fxport.exporter.capture.guards.answers import RefusalHidden, going_on, refusals_kept
from fxport.exporter.capture.guards.askers import Line
from fxport.exporter.capture.guards.errors import caught_errors
from fxport.exporter.capture.guards.presence import Scope, some_presumed
from fxport.exporter.capture.patches.arithmetic import operators_as_python
from fxport.exporter.capture.patches.derivatives import gradients_recorded
from fxport.exporter.capture.patches.distributions import parameters_unchecked
from fxport.exporter.capture.patches.kinds import namespaces_of
from fxport.exporter.capture.patches.known_constants import ConstantsKnown
from fxport.exporter.capture.patches.known_values import Asked, values_known
from fxport.exporter.capture.patches.masks import masks_left_out
from fxport.exporter.capture.patches.module_methods import methods_in_place
from fxport.exporter.capture.patches.scans import associative_scans_kept
from fxport.exporter.capture.patches.trainable import frozen
from fxport.exporter.capture.patches.whole_ops import whole_ops
from fxport.exporter.capture.places import place_of_module
from fxport.exporter.capture.repeated.blocks import Repeats
from fxport.exporter.capture.request import CaptureRequest, Observed
from fxport.exporter.capture.rewritten import Rewritten
from fxport.exporter.capture.sizes.shapes import Request
from fxport.exporter.capture.sizes.zero_one_specialization import is_small
from fxport.exporter.capture.snapshot import Snapshot
from fxport.fx_passes.broadcasting import broadcasting_unassumed

Strategy = Callable[[CaptureRequest, Observed], ExportedProgram]


# How a model is captured ----------------------------------------------------------------------------------------------


def non_strict(request: CaptureRequest, observed: Observed) -> ExportedProgram:
    """Capture by torch.export without Dynamo: Python runs as it is, tensors are traced, PyTorch decides about sizes."""
    constants = ConstantsKnown(request.model)
    exported = _by_python(request, observed, constants)
    if constants.are_misled(exported):
        return _by_python(request, observed, ConstantsKnown(request.model, answers=False))
    return exported


def _by_python(request: CaptureRequest, observed: Observed, constants: ConstantsKnown) -> ExportedProgram:
    observed.copied.clear()
    repeats = Repeats(request.model if request.reuse else None, observed.noted)
    with within(pre_dispatch_contexts(request, observed, constants)):
        return _keeping_branches(request, observed, partial(_by_torch_export, request, strict=False), repeats)


def _keeping_branches(
    request: CaptureRequest, observed: Observed, trace: Callable[[], ExportedProgram], repeats: Repeats
) -> ExportedProgram:
    """Capture with every branch on data as a cond; if that fails, with some data presumed where Python asks for any."""
    attempt, presumed = partial(_copying, repeats, trace, observed), observed.inquiry.presumed
    if not request.rewrite:
        return attempt(None)
    namespaces = {id(each) for each in namespaces_of(request.model)}
    functions = [each for each in observed.effects.state.functions() if id(each.__globals__) in namespaces]
    try:
        with methods_in_place(), some_presumed(presumed, Scope.KEPT):
            return keeping_loops(attempt, functions, observed.overcome, observed.rewritten, observed.unkept)
    except Exception as error:
        if not presumed.open or is_our_fault(error):
            raise
        presumed.refusal = error
    with methods_in_place(), some_presumed(presumed, Scope.EVERYWHERE):
        return keeping_loops(attempt, functions, observed.overcome, observed.rewritten, observed.unkept)


def _copying(
    repeats: Repeats, trace: Callable[[], ExportedProgram], observed: Observed, halts: Collection[Line] | None
) -> ExportedProgram:
    """Capture with the blocks that the model repeats copied; where the copies are not proven, without."""
    while halts is None and repeats.groups:
        try:
            with repeats.copied():
                exported = _exported(trace, observed, halts)
            if repeats.are_proven:
                observed.copied[:] = repeats.copied_of_user
                return exported
        except Exception as error:
            if is_our_fault(error) or not (repeats.copies or repeats.has_misled or not repeats.are_proven):
                raise
        repeats.leave()
    return _exported(trace, observed, halts)


def _exported(
    trace: Callable[[], ExportedProgram], observed: Observed, halts: Collection[Line] | None
) -> ExportedProgram:
    observed.inquiry.presumed.clear()
    state = observed.effects.state.anew()
    try:
        caught = caught_errors(state.functions(), observed.caught)
        with going_on(observed.inquiry, halts), refusals_kept(observed.inquiry), replaced_unwritten(), caught:
            exported = require_given(trace(), partial(_has_fakes, state))
            is_shared = any(isinstance(each.holder.owner, LENDING) for each in state.changes())
            return constants_owned(exported) if is_shared else exported
    except Exception as error:
        if any(is_about_gradients(str(each)) for each in causes_of(error)):
            observed.ungraded.append(error)
        raise
    finally:
        observed.effects.note(state)
        state.restore()


def _has_fakes(state: Snapshot) -> bool:
    return any(isinstance(value, FakeTensor) for _, _, value in state.values())


def _by_torch_export(request: CaptureRequest, *, strict: bool) -> ExportedProgram:
    shapes = request.dynamic_shapes
    return torch.export.export(request.model, request.args, dict(request.kwargs), dynamic_shapes=shapes, strict=strict)


def values_asked(request: CaptureRequest, observed: Observed) -> ExportedProgram:
    """Capture as `non_strict` does, with values of weights where Python asks, and of inputs if that is wanted."""
    asked: list[Asked] = []
    with values_known(request.model, request.args, request.kwargs, asked, inputs=request.values_of_inputs):
        exported = non_strict(replace(request, reuse=False), observed)  # the values of each block are others
    observed.asked.extend(asked)
    return exported


def sizes_from_one(request: CaptureRequest, observed: Observed) -> ExportedProgram:
    """Capture as `non_strict` does, where a dynamic dimension may have the size 0 or 1 in the example."""
    with shape_config.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]  # made at run time
        return non_strict(request, observed)


def by_example(request: CaptureRequest, observed: Observed) -> ExportedProgram:
    """Capture as `sizes_from_one` does where a dynamic dimension has the size 0 or 1 in the example."""
    small = any(is_small(each) and each not in request.fixed for each in request.sizes)
    return (sizes_from_one if small else non_strict)(request, observed)


def post_dispatch(request: CaptureRequest, observed: Observed) -> ExportedProgram:
    """Capture below autograd, which sees through vmap, jacrev, grad and autograd.grad inside of forward."""
    trace = partial(
        _trace._export,
        request.model,
        request.args,
        dict(request.kwargs),
        dynamic_shapes=request.dynamic_shapes,
        strict=False,
        pre_dispatch=False,
    )
    observed.below_autograd.append("post-dispatch")
    with within(post_dispatch_contexts(request, observed)):
        return _keeping_branches(request, observed, trace, Repeats(None, observed.noted))


def recording(request: CaptureRequest, observed: Observed) -> ExportedProgram:
    """Capture as `post_dispatch` does, for a forward that asks for gradients of its inputs without turning them on."""
    with gradients_recorded(request.model):
        return post_dispatch(request, observed)


def strict(request: CaptureRequest, observed: Observed) -> ExportedProgram:
    """Capture by torch.export with Dynamo, which understands some Python that plain tracing does not.

    It reads the model's code by rules of its own, some of them other than Python's: `3 in x.tolist()` is false.
    """
    managers = (
        whole_ops(),
        associative_scans_kept(),
        masks_left_out(),
        parameters_unchecked(),
        operators_as_python(),
        broadcasting_unassumed(),
    )
    with frozen(request.model), within(managers):
        exported = require_given(_by_torch_export(request, strict=True), partial(_has_fakes, observed.effects.state))
    observed.rewritten[:] = [Rewritten("call", place_of_module(request.model))]
    observed.caught.clear()  # Dynamo reads the code, and runs none of it
    return exported


# When it is tried -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt that failed: what it was asked for, how it ended, and the sizes of 0 or 1 that the error is about.

    And whether it, or one before it, was about gradients.
    """

    name: str
    request: CaptureRequest
    error: Exception
    blamed: Sequence[Request]
    asks_for_gradients: bool


def always(request: CaptureRequest, failed: Sequence[Failed]) -> CaptureRequest | None:
    """Try it, without the sizes that were found to be constants."""
    return failed[-1].request if failed else request


def with_small_sizes(request: CaptureRequest, failed: Sequence[Failed]) -> CaptureRequest | None:
    """Try it if a size that shall be dynamic is 0 or 1 in the example, and all such shall be."""
    return request if not request.fixed and any(map(is_small, request.sizes)) else None


def without_blamed_sizes(request: CaptureRequest, failed: Sequence[Failed]) -> CaptureRequest | None:
    """Try it with some sizes of 0 or 1 as constants: those that are so already, or that the last failure is about."""
    if failed:
        last = failed[-1]
        return last.request.fixing(dict.fromkeys(last.blamed, place_of_exception(last.error))) if last.blamed else None
    return request if any(is_small(each) and each not in request.fixed for each in request.sizes) else None


def if_values_are_asked(request: CaptureRequest, failed: Sequence[Failed]) -> CaptureRequest | None:
    """Try it if the last failure was a question about a value, or if values of inputs may be constants."""
    asks = request.values_of_inputs or asks_for_values(failed[-1].error)
    return failed[-1].request if asks else None


def if_gradients_are_asked(request: CaptureRequest, failed: Sequence[Failed]) -> CaptureRequest | None:
    """Try it if gradients have to do with a failure: else it would be the same again."""
    return failed[-1].request if failed[-1].asks_for_gradients else None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One row: how a model is captured, and when that is tried.

    Attributes:
        name: What messages and `Options.strategy` call it.
        request: Returns what to ask for, given the user's request and what has failed; None if it is not to be tried.
        capture: Captures.
        repeats: It is tried again when it has failed, as long as `request` returns one.
    """

    name: str
    request: Callable[[CaptureRequest, Sequence[Failed]], CaptureRequest | None]
    capture: Strategy
    repeats: bool = False


VALUES = "values that Python asks for"

ATTEMPTS: tuple[Attempt, ...] = (
    Attempt("sizes from one", with_small_sizes, sizes_from_one),
    Attempt("some sizes from one", without_blamed_sizes, sizes_from_one, repeats=True),
    Attempt("non-strict", always, non_strict),  # right for nearly every model, and the quickest by far
    Attempt(VALUES, if_values_are_asked, values_asked),
    Attempt("post-dispatch", always, post_dispatch),
    Attempt("post-dispatch, recording", if_gradients_are_asked, recording),
    Attempt("strict", always, strict),
)
"""In the order in which they are tried, until one captures the model."""


def is_over(attempt: Attempt, failed: Sequence[Failed]) -> bool:
    """Return whether an attempt would not see what made another one fail for good."""
    final = [each.error for each in failed if is_final(each.error)]
    return bool(final) and not (attempt.name == VALUES and getattr(final[-1], "by_values", False))


def is_final(error: Exception) -> bool:
    """Return whether no other attempt can do better: the example inputs do not fit, or the model's own code raised."""
    place = place_of_exception(error)
    return isinstance(error, FINAL) or (isinstance(error, TypeError) and place is None)


FINAL = (RefusalHidden, RefusedError)
"""Errors that another attempt would not see, and pass in silence."""
