"""The patches of PyTorch and Python, and the parts of the function mode, that are set up around a trace of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from fxport.exporter.capture.arguments.padded import padded_calls
from fxport.exporter.capture.arguments.structures import declared_results
from fxport.exporter.capture.control_flow.returned_lists import returned_lists_refused
from fxport.exporter.capture.function_mode import FunctionMode, Part
from fxport.exporter.capture.guards.answers import refusals_kept
from fxport.exporter.capture.guards.handlers import catches
from fxport.exporter.capture.guards.presence import TruthsPresumed
from fxport.exporter.capture.knowledge import WritesCounted
from fxport.exporter.capture.patches.arithmetic import operators_as_python
from fxport.exporter.capture.patches.asked_sizes import sizes_as_asked
from fxport.exporter.capture.patches.asking_layers import layers_unasking
from fxport.exporter.capture.patches.assigned_buffers import assignments_written
from fxport.exporter.capture.patches.attention import flags_plain
from fxport.exporter.capture.patches.autocast_composites import composites_opened
from fxport.exporter.capture.patches.autocast_in_bodies import autocast_followed
from fxport.exporter.capture.patches.batched_ops import sized_batches
from fxport.exporter.capture.patches.body_gradients import body_gradients
from fxport.exporter.capture.patches.bookkeeping import bookkeeping_unseen
from fxport.exporter.capture.patches.bounded_values import BoundsKnown
from fxport.exporter.capture.patches.checked_sizes import asked_as_data
from fxport.exporter.capture.patches.conversions import needless_conversions_skipped
from fxport.exporter.capture.patches.corrected_ops import corrected_ops
from fxport.exporter.capture.patches.derivatives import forward_mode_by_reverse
from fxport.exporter.capture.patches.distributions import parameters_unchecked
from fxport.exporter.capture.patches.equal_masks import MasksRecognized
from fxport.exporter.capture.patches.extremes import unwritten_watched
from fxport.exporter.capture.patches.foreach import ForeachAsLoops
from fxport.exporter.capture.patches.indexed_writes import keys_as_eager_has_them
from fxport.exporter.capture.patches.kinds import python_kinds
from fxport.exporter.capture.patches.known_constants import ConstantsKnown
from fxport.exporter.capture.patches.libraries import library_functions_rewritten
from fxport.exporter.capture.patches.linalg_checks import checks_without_effect
from fxport.exporter.capture.patches.marked import MarksNoted, marks_noted
from fxport.exporter.capture.patches.masks import masks_left_out
from fxport.exporter.capture.patches.merged_sizes import merged_sizes_bounded
from fxport.exporter.capture.patches.mixed_kinds import KindsHeeded, kinds_heeded_in_data
from fxport.exporter.capture.patches.outside import attributes_watched
from fxport.exporter.capture.patches.overlapping_writes import OverlapsRefused
from fxport.exporter.capture.patches.packed import FirstBatchKnown, packed_sequences_kept
from fxport.exporter.capture.patches.plain_trees import plain_trees_mapped
from fxport.exporter.capture.patches.pooled_sizes import pools_sized
from fxport.exporter.capture.patches.rebinding import RebindingFollowed, rebinding_followed
from fxport.exporter.capture.patches.regions import regions_noted
from fxport.exporter.capture.patches.reshaped_below import ReshapedNoted, reshaped_unwritten
from fxport.exporter.capture.patches.scans import associative_scans_kept, unbacked_numbers_in_scans
from fxport.exporter.capture.patches.shared_arrays import shared_arrays_noted
from fxport.exporter.capture.patches.shared_reads import shared_reads_allowed
from fxport.exporter.capture.patches.sized_calls import normalized_sizes_noted
from fxport.exporter.capture.patches.slice_sizes import slices_sized
from fxport.exporter.capture.patches.switches import switches_by_sizes
from fxport.exporter.capture.patches.symbolic_calls import CallsKept
from fxport.exporter.capture.patches.tensors_or_numbers import NumbersHeeded
from fxport.exporter.capture.patches.texts import texts_noted
from fxport.exporter.capture.patches.traced_once import traced_once
from fxport.exporter.capture.patches.trainable import TrainableTold, frozen, trainable_parameters_told
from fxport.exporter.capture.patches.views_of_fakes import views_remembered
from fxport.exporter.capture.patches.watched_calls import CallsWatched
from fxport.exporter.capture.patches.whole_ops import whole_ops
from fxport.exporter.capture.request import CaptureRequest, Observed
from fxport.exporter.capture.sizes.equalities import equalities_tried
from fxport.exporter.capture.sizes.promises import equal_from_the_start
from fxport.exporter.capture.sizes.remembered import arithmetic_remembered
from fxport.exporter.capture.sizes.shortening import sizes_shortened
from fxport.fx_passes.broadcasting import broadcasting_unassumed


def _contexts(request: CaptureRequest, observed: Observed, *own: Part) -> Iterator[AbstractContextManager[object]]:
    """The contexts of a trace of plain Python, outermost first. The last of `own` is the last part to see a call."""
    yield asked_as_data(request.model, request.as_data)
    trainable, rebinding = TrainableTold(), RebindingFollowed()
    marks = MarksNoted(observed.effects, trainable)
    yield trainable_parameters_told(request.model, trainable)  # which looks before they are frozen
    yield marks_noted(request.model, marks)
    yield frozen(request.model)
    yield unwritten_watched(request.model)
    yield bookkeeping_unseen()
    yield plain_trees_mapped()
    yield layers_unasking(request.model)
    yield returned_lists_refused(request.model)
    yield declared_results(request.model)
    yield padded_calls(request.model)
    yield attributes_watched(request.model, observed.effects)
    yield texts_noted(observed.texts)
    yield regions_noted()
    yield python_kinds(request.model)
    yield kinds_heeded_in_data()
    yield parameters_unchecked()
    yield flags_plain()
    yield sizes_shortened()
    yield arithmetic_remembered()
    yield views_remembered()
    yield slices_sized()
    yield keys_as_eager_has_them()
    yield switches_by_sizes()
    yield pools_sized()
    yield merged_sizes_bounded()
    yield sizes_as_asked()
    yield equalities_tried()
    yield equal_from_the_start(request.model, request.sizes)
    yield broadcasting_unassumed()
    yield library_functions_rewritten()
    yield rebinding_followed(request.model, rebinding)
    yield assignments_written(request.model, observed.lost)
    yield operators_as_python()
    yield shared_arrays_noted()
    *first, last = own
    parts = (
        ForeachAsLoops(),
        *first,
        TruthsPresumed(observed.inquiry.presumed),
        CallsWatched(observed.inquiry.guards, catches=any(map(catches, observed.effects.state.functions()))),
        KindsHeeded(),
        NumbersHeeded(),
        BoundsKnown(),
        rebinding,
        CallsKept(),
        WritesCounted(),
        OverlapsRefused(),
        MasksRecognized(),
        trainable,
        marks,
        last,
    )
    yield FunctionMode(parts)  # last, so that it sees calls as the model makes them


def pre_dispatch_contexts(
    request: CaptureRequest, observed: Observed, constants: ConstantsKnown
) -> Iterator[AbstractContextManager[object]]:
    """The contexts of a trace above autograd, which sees the ops that a user writes as they are."""
    yield whole_ops()
    yield normalized_sizes_noted(observed.inquiry.guards)
    yield associative_scans_kept()
    yield unbacked_numbers_in_scans()
    yield needless_conversions_skipped()
    yield packed_sequences_kept()
    yield shared_reads_allowed()
    yield autocast_followed()
    yield composites_opened()
    yield masks_left_out()
    yield from _contexts(request, observed, constants, FirstBatchKnown())


def post_dispatch_contexts(request: CaptureRequest, observed: Observed) -> Iterator[AbstractContextManager[object]]:
    """The contexts of a trace below autograd."""
    yield corrected_ops()
    yield forward_mode_by_reverse()
    yield sized_batches()
    yield body_gradients()
    yield refusals_kept(observed.inquiry)
    yield checks_without_effect()
    reshaped = ReshapedNoted()
    yield reshaped_unwritten(reshaped)
    yield from _contexts(request, observed, reshaped)
    yield traced_once(request.model)


@contextmanager
def within(managers: Iterable[AbstractContextManager[object]]) -> Iterator[None]:
    """Enter one after the other, each within those before."""
    with ExitStack() as entered:
        for manager in managers:
            entered.enter_context(manager)
        yield
