"""Runs of a model in PyTorch on the example laid out in memory as ONNX Runtime has it: contiguous."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from fxport.diagnostics import Log, rules
from fxport.exporter.capture.arguments.inputs import arguments_of, leaves_of
from fxport.exporter.capture.eager import called, may_write_to, restored
from fxport.exporter.capture.fake import has_no_values
from fxport.exporter.capture.faults import is_our_fault
from fxport.exporter.capture.guards.handlers import handles
from fxport.exporter.capture.guards.layout_reads import layout_read_by
from fxport.exporter.capture.patches.process import restore_process
from fxport.exporter.capture.places import place_of_module
from fxport.exporter.capture.request import CaptureRequest, Observed
from fxport.exporter.capture.sizes.rehearsal import alike


def report_layouts(request: CaptureRequest, observed: Observed, log: Log) -> None:
    """Report FXP1029 if the model gives something else once the tensors of the example are made contiguous.

    Only functions of the user's that read how tensors lie in memory, or catch errors, may do so.
    """
    model, call = request.model, (request.args, dict(request.kwargs))
    strided = [leaf for leaf in leaves_of(arguments_of(model, *call)) if _is_strided(leaf.value)]
    if not strided:
        return
    functions = [*observed.effects.state.functions()]
    reads = [place for each in functions if (place := layout_read_by(each)) is not None]
    held = (*model.parameters(), *model.buffers(), *pytree.tree_leaves(call))
    if not (reads or any(map(handles, functions))) or any(
        isinstance(each, Tensor) and has_no_values(each) for each in held
    ):
        return
    if not _same(_results(model, call), _results(model, pytree.tree_map_only(Tensor, _contiguous, call))):
        names = ", ".join(leaf.path for leaf in strided)
        at = reads[0] if reads else place_of_module(model)
        log.report(rules.ENVIRONMENT_BAKED, at=at, name=f"the strides of {names}")


def _is_strided(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout is torch.strided and not value.is_contiguous()


def _contiguous(value: Tensor) -> Tensor:
    return value.contiguous() if _is_strided(value) else value


def _results(model: torch.nn.Module, call: tuple[Any, Any]) -> list[Any] | None:
    """Return the leaves of what the model returns, for equal random numbers; None if it raises an error."""
    with restore_process(), restored(model, may_write_to(model)):
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
