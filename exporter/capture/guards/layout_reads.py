"""Lines that read how tensors lie in memory: what they read may change with a size, and no question tells."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType, FunctionType

from fxport.diagnostics import Place
from fxport.diagnostics.source import USER, kind_of, place_of_trace

CALLED = frozenset(
    {"stride", "storage_offset", "_is_view", "data_ptr", "untyped_storage", "is_set_to", "dim_order"}
    | {"is_contiguous", "as_strided", "new_empty_strided", "empty_strided"}
)
"""Methods and functions of tensors that tell of their memory, or depend on it."""

READ = "_base"
"""The attribute that does."""

VARIABLES = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "BINARY_SUBSCR")
"""Instructions that give what a variable or a container holds: `z is y`, not `kind is Kind.A` or `z is None`."""


def layout_read_by(function: FunctionType) -> Place | None:
    """Return the first line of a function of the user's, or of one within it, that reads how tensors lie in memory."""
    code = function.__code__
    return next(_reads(code), None) if kind_of(code.co_filename) == USER else None


def _reads(code: CodeType) -> Iterator[Place]:
    before = ""
    for step in dis.get_instructions(code):
        is_called = step.opname == "LOAD_METHOD" or "NULL|self" in step.argrepr
        reads = (is_called and _name(step) in CALLED) or (step.opname == "LOAD_ATTR" and _name(step) == READ)
        if reads or (step.opname == "IS_OP" and before in VARIABLES):
            line = step.positions.lineno if step.positions is not None else code.co_firstlineno
            if (place := place_of_trace(f'File "{code.co_filename}", line {line}, in {code.co_name}')) is not None:
                yield place
        before = step.opname
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _reads(each)


def _name(step: dis.Instruction) -> str:
    return step.argval if isinstance(step.argval, str) else ""
