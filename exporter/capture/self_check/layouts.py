"""Runs of a model in PyTorch on the example laid out in memory as ONNX Runtime has it: contiguous."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from fxport.diagnostics import Log, rules
from fxport.exporter.capture.arguments.inputs import Leaf, arguments_of, leaves_of
from fxport.exporter.capture.arguments.strides import laid_out_as, lies_as_onnx_has_it, overlaps
from fxport.exporter.capture.eager import called, may_write_to, restored
from fxport.exporter.capture.fake import has_no_values
from fxport.exporter.capture.faults import RefusedError, is_our_fault
from fxport.exporter.capture.guards.layout_reads import layout_read_by
from fxport.exporter.capture.patches.process import restore_process
from fxport.exporter.capture.places import place_of_module
from fxport.exporter.capture.request import CaptureRequest, Observed
from fxport.exporter.capture.self_check.running import prepared, written_to
from fxport.exporter.capture.sizes.rehearsal import alike
from fxport.fx_passes.program import OutputKind, Program
from fxport.fx_passes.randomness import draws_numbers

SHARED = (
    "it writes to an input of which several elements are one place in memory in the example, as `expand` makes them"
)
OWN = "Give an example whose elements have memory of their own: `x.clone(memory_format=torch.contiguous_format)`."


def report_layouts(request: CaptureRequest, observed: Observed, program: Program, log: Log) -> None:
    """Report FXP1029 if the model gives something else once the tensors of the example are made contiguous.

    It reads how tensors lie in memory, writes to what is a view or a copy by that, or catches an error of a view.
    Random numbers are drawn in the order of memory, so a model that draws any is not compared. Nor is one without
    values, or with inputs of which there are no copies: that is told where a line is seen to read it.

    Raises:
        RefusedError: The model writes to an input of which elements share memory in the example.
    """
    model, call = request.model, (request.args, dict(request.kwargs))
    strided = [leaf for leaf in leaves_of(arguments_of(model, *call)) if _is_strided(leaf.value)]
    if not strided:
        return
    changed = prepared(program)
    _require_apart(strided, changed, model)
    held = (*model.parameters(), *model.buffers(), *pytree.tree_leaves(call))
    has_values = not any(isinstance(each, Tensor) and has_no_values(each) for each in held)
    reads = [place for each in observed.effects.state.functions() if (place := layout_read_by(each)) is not None]
    if has_values and not draws_numbers(program.graph_module) and all(_has_copies(leaf.value) for leaf in strided):
        kept = may_write_to(model) | written_to(changed)
        contiguous = pytree.tree_map_only(Tensor, _contiguous, call)
        is_same = _same(_results(model, call, kept), _results(model, contiguous, kept))
    else:
        is_same = not reads
    if not is_same:
        names = ", ".join(leaf.path for leaf in strided)
        at = reads[0] if reads else place_of_module(model)
        log.report(rules.ENVIRONMENT_BAKED, at=at, name=f"the strides of {names}")


def _require_apart(strided: Sequence[Leaf], program: Program, model: torch.nn.Module) -> None:
    paths = {entry.name: entry.path or entry.name for entry in program.user_inputs}
    written = {paths.get(each.updates or "") for each in program.outputs if each.kind is OutputKind.MUTATION}
    if any(leaf.path in written and overlaps(leaf.value) for leaf in strided):
        raise RefusedError(SHARED, place=place_of_module(model), cure=OWN)


def _has_copies(value: Tensor) -> bool:
    copy = laid_out_as(value, value.detach().clone())
    return copy.stride() == value.stride() and copy.storage_offset() == value.storage_offset()


def _is_strided(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout is torch.strided and not lies_as_onnx_has_it(value)


def _contiguous(value: Tensor) -> Tensor:
    return value.clone(memory_format=torch.contiguous_format) if _is_strided(value) else value


def _results(model: torch.nn.Module, call: tuple[Any, Any], kept: set[Any]) -> list[Any] | None:
    """Return the leaves of what the model returns, for equal random numbers; None if it raises an error."""
    with restore_process(), restored(model, kept):
        torch.default_generator.manual_seed(0)
        try:
            results = pytree.tree_leaves(called(model, call)[0])
        except Exception as error:  # the model's own: it is not for this layout
            if is_our_fault(error):
                raise
            return None
        return [each.detach().clone() if isinstance(each, Tensor) else each for each in results]


def _same(one: list[Any] | None, other: list[Any] | None) -> bool:
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(map(alike, one, other))
