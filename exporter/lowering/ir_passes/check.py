"""The last look: ONNX's own checker, with every shape inferred, on the finished model without its large weights."""

from __future__ import annotations

import re

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import CheckerPass

from fxport.diagnostics import Log, Place, rules
from fxport.diagnostics.messages import error_text
from fxport.exporter.lowering.lower.places import PlaceTable


def check(model: ir.Model, log: Log) -> None:
    """Reports ModelRejected if onnx.checker refuses the model or its inferred shapes contradict the declared ones."""
    try:
        CheckerPass(full_check=True).call(model)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        log.report(rules.MODEL_REJECTED, at=_place_of(error_text(error), model), error=error_text(error))


NODE_NAMES = (re.compile(r"node name: ([^)]*)\)"), re.compile(r"^Node\s?\(([^)]*)\)"))
"""Patterns of the messages of the checker that name a node."""


def _place_of(message: str, model: ir.Model) -> Place | None:
    """The user's line of the node that the checker named."""
    names = {found[1] for pattern in NODE_NAMES if (found := pattern.search(message))}
    nodes = (node for node in ir.traversal.RecursiveGraphIterator(model.graph) if node.name in names)
    return next((place for node in nodes if (place := PlaceTable(model).of(node))), None)
