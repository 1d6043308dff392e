"""State that a model changes beside its tensors: what a second call gives, beside the first, tells if it matters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

import torch
from torch.utils import _pytree as pytree

from fxport.diagnostics import Finding, Level, rules
from fxport.diagnostics.source import USER, kind_of
from fxport.exporter.capture.eager import called, copied, restored
from fxport.exporter.capture.fake import has_no_values
from fxport.exporter.capture.faults import is_our_fault
from fxport.exporter.capture.patches.process import restore_process
from fxport.exporter.capture.self_check.inputs import Call
from fxport.exporter.capture.sizes.rehearsal import alike
from fxport.exporter.capture.snapshot import Snapshot

PART = 1e-4
"""Of the largest value of a result that the second call's may be off."""


def with_weight_of_state(found: Sequence[Finding], module: torch.nn.Module, call: Call) -> Sequence[Finding]:
    """Return the findings of a capture; those of FXP1018 are warnings where the next call gives something else.

    What a library changes in the first call only, and what changes no result, is its own: hooks that it adds when they
    are first needed. That is left out.

    The model runs twice in eager PyTorch if there are such findings, and is left as it was. A model that does not run,
    or whose tensors have no values, is not judged.
    """
    noted = [each for each in found if each.rule is rules.PYTHON_STATE_BAKED and each.level is Level.NOTE]
    weight = weight_of_state(module, call) if noted else Weight.UNKNOWN
    if weight is Weight.MATTERS:
        return [replace(each, level=Level.WARNING) if each in noted else each for each in found]
    if weight is Weight.SETTLED:
        return [each for each in found if each not in noted or each.place is None or kind_of(each.place.path) == USER]
    return found


class Weight(Enum):
    """Importance of the state that a call changes, as a second call tells."""

    MATTERS = "it gives other results"
    SETTLED = "it gives the same, and changes nothing"
    UNKNOWN = "it changes something, or cannot be made"


def weight_of_state(module: torch.nn.Module, call: Call) -> Weight:
    """Return what a second call with equal tensors and random numbers tells."""
    held = dict((*module.named_buffers(), *module.named_parameters()))
    if any(isinstance(each, torch.Tensor) and has_no_values(each) for each in pytree.tree_leaves((call, held))):
        return Weight.UNKNOWN
    buffers = {name: tensor.detach().clone() for name, tensor in module.named_buffers()}
    results, is_settled = [], False
    with restore_process(), torch.random.fork_rng(), restored(module, buffers):
        try:
            for _ in range(2):
                state = Snapshot.of({"": module})
                torch.default_generator.manual_seed(0)
                leaves = pytree.tree_leaves(copied(called(module, call)))
                results.append(leaves)
                for name, tensor in module.named_buffers():
                    if name in buffers:
                        tensor.detach().copy_(buffers[name])
                is_settled = not any(state.changes())
        except Exception as error:  # the model's own
            if is_our_fault(error):
                raise
            return Weight.MATTERS if len(results) == 1 else Weight.UNKNOWN  # the second call alone
    first, second = results
    if len(first) != len(second) or not all(alike(one, other, PART) for one, other in zip(first, second, strict=True)):
        return Weight.MATTERS
    return Weight.SETTLED if is_settled else Weight.UNKNOWN
