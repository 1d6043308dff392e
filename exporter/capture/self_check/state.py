"""State that a model changes beside its tensors: what a second call gives, beside the first, tells if it matters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch.utils import _pytree as pytree

from fxport.diagnostics import Finding, Level, rules
from fxport.exporter.capture.eager import called, copied, restored
from fxport.exporter.capture.fake import has_no_values
from fxport.exporter.capture.faults import is_our_fault
from fxport.exporter.capture.patches.process import restore_process
from fxport.exporter.capture.self_check.inputs import Call
from fxport.exporter.capture.sizes.rehearsal import alike

PART = 1e-4
"""Of the largest value of a result that the second call's may be off."""


def with_weight_of_state(found: Sequence[Finding], module: torch.nn.Module, call: Call) -> Sequence[Finding]:
    """Return the findings of a capture; those of FXP1018 are warnings where the next call gives something else.

    The model runs twice in eager PyTorch if there are such findings, and is left as it was. A model that does not run,
    or whose tensors have no values, is not judged.
    """
    noted = [each for each in found if each.rule is rules.PYTHON_STATE_BAKED and each.level is Level.NOTE]
    if not noted or not state_matters(module, call):
        return found
    return [replace(each, level=Level.WARNING) if each in noted else each for each in found]


def state_matters(module: torch.nn.Module, call: Call) -> bool:
    """Return True if a second call gives other results than the first, of equal tensors and random numbers."""
    held = dict((*module.named_buffers(), *module.named_parameters()))
    if any(isinstance(each, torch.Tensor) and has_no_values(each) for each in pytree.tree_leaves((call, held))):
        return False
    buffers = {name: tensor.detach().clone() for name, tensor in module.named_buffers()}
    results = []
    with restore_process(), torch.random.fork_rng(), restored(module, buffers):
        try:
            for _ in range(2):
                torch.default_generator.manual_seed(0)
                leaves = pytree.tree_leaves(copied(called(module, call)))
                results.append(leaves)
                for name, tensor in module.named_buffers():
                    if name in buffers:
                        tensor.detach().copy_(buffers[name])
        except Exception as error:  # the model's own
            if is_our_fault(error):
                raise
            return len(results) == 1  # the second call alone
    first, second = results
    return len(first) != len(second) or not all(
        alike(one, other, PART) for one, other in zip(first, second, strict=True)
    )
