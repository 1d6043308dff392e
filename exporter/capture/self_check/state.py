"""State that a model changes beside its tensors: what later calls give, beside the first, tells if it matters."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils import _pytree as pytree

from fxport.diagnostics import Finding, Level, rules
from fxport.diagnostics.source import USER, kind_of
from fxport.exporter.capture.eager import called, copied, may_write_to, restored
from fxport.exporter.capture.fake import has_no_values
from fxport.exporter.capture.faults import is_our_fault
from fxport.exporter.capture.patches.outside import NEW_ENTRY
from fxport.exporter.capture.patches.process import restore_process
from fxport.exporter.capture.patches.restoration import is_same
from fxport.exporter.capture.self_check.counts import decides_at_a_number
from fxport.exporter.capture.self_check.inputs import Call, drawn
from fxport.exporter.capture.self_check.running import prepared, written_to
from fxport.exporter.capture.sizes.rehearsal import alike
from fxport.exporter.capture.sizes.resizing import resized
from fxport.exporter.capture.snapshot import Snapshot
from fxport.fx_passes.program import Program

PART = 1e-4
"""Of the largest value of a result that a later call's may be off."""

FURTHER_CALLS = 10
"""Calls after the first: a model may count to some number before it matters."""

MOST_SECONDS = 2.0
"""CPU time after which no further call of those begins."""

Leaves = list[Any]
"""The values of all results of one call."""

Held = tuple[Module, str, Tensor]
"""A parameter or a buffer, and the attribute that has it."""


def with_weight_of_state(found: Sequence[Finding], module: Module, call: Call, program: Program) -> Sequence[Finding]:
    """Return the findings of a capture; those of FXP1018 are warnings where a later call gives something else.

    What a library changes in the first call only, and what changes no result, is its own: hooks that it adds when they
    are first needed. That is left out.

    The model runs up to a dozen times in eager PyTorch if there are such findings, after calls on other values and at
    another size, too, and is left as it was. A model that does not run, or whose tensors have no values, is not judged.
    """
    noted = [each for each in found if each.rule is rules.PYTHON_STATE_BAKED and each.level is Level.NOTE]
    weight = weight_of_state(module, call, program) if noted else Weight.UNKNOWN
    if weight is Weight.MATTERS:
        return [replace(each, level=Level.WARNING) if each in noted else each for each in found]
    if weight is Weight.SETTLED:
        return [each for each in found if each not in noted or _is_of_user(each)]
    return found


def _is_of_user(told: Finding) -> bool:
    """Return whether the user's code has changed something that was there."""
    in_library = told.place is not None and kind_of(told.place.path) != USER
    return not in_library and told.facts["was"] != NEW_ENTRY


class Weight(Enum):
    """Importance of the state that a call changes, as later calls tell."""

    MATTERS = "one gives other results"
    SETTLED = "they give the same, and the second changes nothing"
    UNKNOWN = "they change something, or cannot be made"


def weight_of_state(module: Module, call: Call, program: Program) -> Weight:
    """Return what further calls tell, of equal tensors and random numbers."""
    held = dict((*module.named_buffers(), *module.named_parameters()))
    if any(isinstance(each, Tensor) and has_no_values(each) for each in pytree.tree_leaves((call, held))):
        return Weight.UNKNOWN
    written = written_to(prepared(program))
    names = may_write_to(module) | written
    tensors = [_place(module, name) for name in held if name in names]
    begun = time.thread_time()
    with _given_back(module, names):
        if (first := _result(module, call, tensors)) is None:
            return Weight.UNKNOWN
        is_slow = time.thread_time() - begun > MOST_SECONDS
        state = Snapshot.of({"": module})
        for later in _later(module, call, tensors):
            if not _alike(first, later):
                return Weight.MATTERS
            if not any(state.changes()):
                break
        is_settled = not any(state.changes())
    others = (resized(module, call, program), next(drawn([call]))[1])
    for other in others:
        if other is None:
            continue
        with _given_back(module, names):
            taken = _result(module, other, tensors) is not None
            if taken and not _alike(first, _result(module, call, tensors)):
                return Weight.MATTERS
    tells = not is_slow and _is_frozen_otherwise(module, call, written, names)
    if tells or (not is_slow and _decides_later(module, call, names, tensors)):
        return Weight.MATTERS
    return Weight.SETTLED if is_settled else Weight.UNKNOWN


def _is_frozen_otherwise(module: Module, call: Call, targets: Collection[str], names: Collection[str | None]) -> bool:
    """Return whether calls that follow each other give something else where only the tensors of these paths last.

    A ring of states is one that it writes to at a place that a number of Python's tells: in the ONNX model, at the
    same one in each call.
    """
    if not targets or not all(_is_of(module, each) for each in targets):
        return False
    with _given_back(module, names):
        lasting = [*_later(module, call, ())]
    with _given_back(module, names):
        state, end = Snapshot.of({"": module}), time.thread_time() + MOST_SECONDS
        for want in lasting:
            found = _result(module, call, ())
            if want is None or found is None or time.thread_time() > end:
                return False
            if not all(_is_of(module, each) for each in targets):
                return False
            values = [_tensor(module, each).detach().clone() for each in targets]
            state.restore()
            for each, value in zip(targets, values, strict=True):
                if _tensor(module, each).shape != value.shape:
                    return False
                _tensor(module, each).detach().copy_(value)
            if not _alike(want, found):
                return True
    return False


def _decides_later(module: Module, call: Call, names: Collection[str | None], tensors: Sequence[Held]) -> bool:
    """Return whether a number that calls count decides on results where it comes to one that is named."""
    with _given_back(module, names):
        state = Snapshot.of({"": module})
        if _result(module, call, ()) is None:
            return False
        after = state.anew()
        want = _result(module, call, tensors)
        after.restore()

        def differs() -> bool:
            found = _result(module, call, tensors)
            return want is not None and found is not None and not _alike(want, found)

        return decides_at_a_number(state, differs)


def _place(module: Module, name: str) -> Held:
    owner, _, attribute = name.rpartition(".")
    holder = module.get_submodule(owner)
    return holder, attribute, getattr(holder, attribute)


def _is_of(module: Module, name: str) -> bool:
    found: Any = module
    for part in name.split("."):  # a call may have taken a layer away
        found = getattr(found, part, None)
    return isinstance(found, Tensor)


def _tensor(module: Module, name: str) -> Tensor:
    return _place(module, name)[2]


def _later(module: Module, call: Call, tensors: Sequence[Held]) -> Iterator[Leaves | None]:
    """Yield what further calls return."""
    end = time.thread_time() + MOST_SECONDS
    for _ in range(FURTHER_CALLS):
        yield _result(module, call, tensors)
        if time.thread_time() > end:
            return


@contextmanager
def _given_back(module: Module, names: Collection[str | None]) -> Iterator[None]:
    with restore_process(), restored(module, names):
        yield


def _result(module: Module, call: Call, tensors: Sequence[Held]) -> Leaves | None:
    """Call the model and put these tensors of it back; return the values of its results, None if it raises."""
    before = [tensor.detach().clone() for *_, tensor in tensors]
    torch.default_generator.manual_seed(0)
    try:
        return pytree.tree_leaves(copied(called(module, call)))
    except Exception as error:  # the model's own
        if is_our_fault(error):
            raise
        return None
    finally:
        for (owner, attribute, tensor), value in zip(tensors, before, strict=True):
            if getattr(owner, attribute, None) is not tensor:
                setattr(owner, attribute, tensor)
            if not is_same(tensor.detach(), value):
                tensor.detach().copy_(value)


def _alike(first: Leaves, other: Leaves | None) -> bool:
    if other is None or len(first) != len(other):
        return False
    return all(alike(*each, PART) for each in zip(first, other, strict=True))
