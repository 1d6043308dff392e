"""Lines that read how tensors lie in memory: what they read may change with a size, and no question tells."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType, FunctionType

from fxport.diagnostics import Place
from fxport.diagnostics.source import USER, kind_of, place_of_trace

READS = frozenset(
    {"stride", "storage_offset", "_base", "_is_view", "data_ptr", "untyped_storage", "is_set_to", "dim_order"}
    | {"is_contiguous", "as_strided", "new_empty_strided", "empty_strided", "empty_like", "preserve_format"}
)
"""Attributes and functions of tensors that tell of their memory, or depend on it."""

CONSTANTS = ("LOAD_CONST", "LOAD_GLOBAL", "LOAD_NAME")
"""Instructions that give no tensor made by the model."""


def layout_read_by(function: FunctionType) -> Place | None:
    """Return the first line of a function of the user's, or of one within it, that reads how tensors lie in memory."""
    code = function.__code__
    return next(_reads(code), None) if kind_of(code.co_filename) == USER else None


def _reads(code: CodeType) -> Iterator[Place]:
    before = ""
    for step in dis.get_instructions(code):
        same = step.opname == "IS_OP" and before not in CONSTANTS
        if same or (step.argval in READS and step.opname.startswith("LOAD_")):
            line = step.positions.lineno if step.positions is not None else code.co_firstlineno
            if (place := place_of_trace(f'File "{code.co_filename}", line {line}, in {code.co_name}')) is not None:
                yield place
        if step.opname not in ("CACHE", "PRECALL"):
            before = step.opname
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _reads(each)
