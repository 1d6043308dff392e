"""The ways of torch.export to capture a model, as a table, with all that is set up around each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch.export import ExportedProgram, _trace
from torch.fx.experimental import _config as shape_config

from diagnostics import Place
from exporter.capture.arguments.inputs import arguments_of
from exporter.capture.arguments.padded import padded_calls
from exporter.capture.arguments.structures import declared_results
from exporter.capture.control_flow.loops import keeping_loops
from exporter.capture.faults import is_our_fault
from exporter.capture.guards.answers import Inquiry, going_on, refusals_kept
from exporter.capture.guards.askers import Line
from exporter.capture.guards.presence import Scope, some_presumed
from exporter.capture.knowledge import WritesCounted
from exporter.capture.patches.autocast_in_bodies import autocast_followed
from exporter.capture.patches.bounded_values import BoundsKnown
from exporter.capture.patches.conversions import needless_conversions_skipped
from exporter.capture.patches.derivatives import forward_mode_by_reverse, gradients_recorded
from exporter.capture.patches.distributions import parameters_unchecked
from exporter.capture.patches.kinds import sizes_are_integers
from exporter.capture.patches.known_values import Asked, values_known
from exporter.capture.patches.libraries import library_functions_rewritten
from exporter.capture.patches.masks import masks_left_out
from exporter.capture.patches.outside import Effects, attributes_watched
from exporter.capture.patches.packed import packed_sequences_kept
from exporter.capture.patches.rebinding import rebinding_followed
from exporter.capture.patches.regions import regions_noted
from exporter.capture.patches.scans import associative_scans_kept, numbers_in_turns
from exporter.capture.patches.shared_reads import shared_reads_allowed
from exporter.capture.patches.sized_calls import normalized_sizes_unchecked
from exporter.capture.patches.symbolic_calls import CallsKept, arithmetic_kept
from exporter.capture.patches.texts import texts_noted
from exporter.capture.patches.whole_ops import whole_ops
from exporter.capture.sizes.equalities import equalities_tried
from exporter.capture.sizes.shapes import Request, relaxed
from exporter.capture.sizes.shortening import sizes_shortened
from exporter.capture.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Call:
    """A model with one example call of it, the sizes that shall stay dynamic, and these as torch.export takes them."""

    model: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    requests: Sequence[Request]
    dynamic_shapes: Any
    effects: Effects = field(default_factory=lambda: Effects(Snapshot(())))
    """Gets what `forward` was seen to change of the state that is no tensor."""
    texts: list[Place] = field(default_factory=list)
    """Where `forward` was seen to write values as text."""
    overcome: list[Exception] = field(default_factory=list)
    """Gets what a capture would have failed by, had its branches and loops not been kept."""
    asked: list[Asked] = field(default_factory=list)
    """Gets the lines that asked for values of the example, where these are known."""
    inquiry: Inquiry = field(default_factory=Inquiry)
    """Gets what the capture asks about sizes, and how that was answered."""
    fixed: dict[Request, Place | None] = field(default_factory=dict)
    """The sizes that are to be constants, since the model holds for that of the example alone: each with the line."""


Strategy = Callable[[Call], ExportedProgram]


def fixing(call: Call, fixed: Mapping[Request, Place | None]) -> Call:
    """The call with these sizes as constants, besides those that are fixed already."""
    call.fixed.update(fixed)
    kept = [request for request in call.requests if request not in call.fixed]
    return replace(call, dynamic_shapes=relaxed(arguments_of(call.model, call.args, call.kwargs), kept))


@contextmanager
def frozen(module: torch.nn.Module) -> Iterator[None]:
    """No parameter asks for gradients, and none are recorded; both are as they were afterwards.

    Several models can be exported only so: the gradient rules of control flow would be captured otherwise.
    """
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in trainable:
        parameter.requires_grad_(False)
    try:
        with torch.no_grad():
            yield
    finally:
        for parameter in trainable:
            with torch.inference_mode(parameter.is_inference()):  # where it was made is where PyTorch lets it be set
                parameter.requires_grad_(True)


def _traced(call: Call) -> Iterator[AbstractContextManager[object]]:
    """What stands around a trace of plain Python, below autograd or above: outermost first."""
    yield frozen(call.model)
    yield declared_results(call.model)
    yield padded_calls(call.model)
    yield attributes_watched(call.model, call.effects)
    yield texts_noted(call.texts)
    yield regions_noted()
    yield sizes_are_integers(call.model)
    yield parameters_unchecked()
    yield sizes_shortened()
    yield equalities_tried()
    yield library_functions_rewritten()
    yield WritesCounted()
    yield CallsKept()
    yield rebinding_followed(call.model)
    yield BoundsKnown()
    yield arithmetic_kept()


def _traced_whole(call: Call) -> Iterator[AbstractContextManager[object]]:
    """The same for a trace above autograd, which sees the ops that a user writes as they are."""
    yield whole_ops()
    yield normalized_sizes_unchecked()
    yield associative_scans_kept()
    yield numbers_in_turns()
    yield needless_conversions_skipped()
    yield packed_sequences_kept()
    yield shared_reads_allowed()
    yield autocast_followed()
    yield masks_left_out()
    yield from _traced(call)


def _traced_below(call: Call) -> Iterator[AbstractContextManager[object]]:
    """The same for a trace below autograd."""
    yield forward_mode_by_reverse()
    yield refusals_kept(call.inquiry)
    yield from _traced(call)


@contextmanager
def within(managers: Iterable[AbstractContextManager[object]]) -> Iterator[None]:
    """Enters one after the other, each within those before."""
    with ExitStack() as entered:
        for manager in managers:
            entered.enter_context(manager)
        yield


def non_strict(call: Call) -> ExportedProgram:
    """torch.export without Dynamo: Python runs as it is, tensors are traced, PyTorch decides about every size."""
    with within(_traced_whole(call)):
        return _with_ways_kept(call)


def _with_ways_kept(call: Call) -> ExportedProgram:
    """With every branch on data as a cond; if that cannot be, with those that ask for any data taken for some."""
    attempt, presumed = partial(_exported, call), call.inquiry.presumed
    try:
        with some_presumed(presumed, Scope.KEPT):
            return keeping_loops(attempt, call.overcome)
    except Exception as error:
        if not presumed.open or is_our_fault(error):
            raise
        presumed.refusal = error
    with some_presumed(presumed, Scope.EVERYWHERE):
        return keeping_loops(attempt, call.overcome)


def _exported(call: Call, halts: Collection[Line] | None) -> ExportedProgram:
    call.inquiry.presumed.answers.clear()
    state = call.effects.state.anew()
    try:
        with going_on(call.inquiry, halts), refusals_kept(call.inquiry):
            return torch.export.export(
                call.model, call.args, dict(call.kwargs), dynamic_shapes=call.dynamic_shapes, strict=False
            )
    finally:
        call.effects.note(state)
        state.restore()


def values_asked(call: Call, *, inputs: bool) -> ExportedProgram:
    """As `non_strict`, with what Python asks of the values of weights, and of inputs, answered from them."""
    asked: list[Asked] = []
    with values_known(call.model, call.args, call.kwargs, asked, inputs=inputs):
        exported = non_strict(call)
    call.asked.extend(asked)
    return exported


def sizes_from_one(call: Call) -> ExportedProgram:
    """As `non_strict`, with a dynamic dimension allowed whose example is 0 or 1, if it is none of `Call.fixed`."""
    call = fixing(call, {}) if call.fixed else call
    with shape_config.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]  # made at run time
        return non_strict(call)


def post_dispatch(call: Call) -> ExportedProgram:
    """Tracing below autograd: sees through vmap, jacrev, grad and autograd.grad inside of forward."""
    with within(_traced_below(call)):
        return _trace._export(
            call.model,
            call.args,
            dict(call.kwargs),
            dynamic_shapes=call.dynamic_shapes,
            strict=False,
            pre_dispatch=False,
        )


def recording(call: Call) -> ExportedProgram:
    """As `post_dispatch`, for a forward that asks for gradients of its inputs without turning them on."""
    with gradients_recorded(call.model):
        return post_dispatch(call)


def strict(call: Call) -> ExportedProgram:
    """torch.export with Dynamo, which understands some Python that plain tracing does not."""
    with frozen(call.model), whole_ops(), associative_scans_kept(), masks_left_out(), parameters_unchecked():
        return torch.export.export(
            call.model, call.args, dict(call.kwargs), dynamic_shapes=call.dynamic_shapes, strict=True
        )


STRATEGIES: tuple[tuple[str, Strategy], ...] = (
    ("non-strict", non_strict),
    ("post-dispatch", post_dispatch),
    ("post-dispatch, recording", recording),
    ("strict", strict),
)
"""In the order in which they are tried; the first is right for nearly every model and the quickest by far."""
