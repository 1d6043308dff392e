"""The last look: ONNX's own checker, with every shape inferred, on the finished model without its large weights."""

from __future__ import annotations

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import CheckerPass

from fxport.diagnostics import Log, rules
from fxport.diagnostics.messages import error_text


def check(model: ir.Model, log: Log) -> None:
    """Reports ModelRejected if onnx.checker refuses the model or its inferred shapes contradict the declared ones."""
    try:
        CheckerPass(full_check=True).call(model)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        log.report(rules.MODEL_REJECTED, error=error_text(error))
