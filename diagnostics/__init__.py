"""Rules, findings in a log, and the formats in which a log is written. Imports neither torch nor onnx."""

from fxport.diagnostics import rules
from fxport.diagnostics.log import Log
from fxport.diagnostics.model import (
    Applicability,
    BaselineState,
    Edit,
    Finding,
    Fix,
    Frame,
    Level,
    Part,
    Place,
    Rule,
    Step,
    Stop,
    SuppressedBy,
    Suppression,
)

__all__ = [
    "Applicability",
    "BaselineState",
    "Edit",
    "Finding",
    "Fix",
    "Frame",
    "Level",
    "Log",
    "Part",
    "Place",
    "Rule",
    "Step",
    "Stop",
    "SuppressedBy",
    "Suppression",
    "rules",
]
