"""Lines that read how tensors lie in memory, or write to what may be a copy: with a size, that may change unasked."""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType

from fxport.diagnostics import Place
from fxport.diagnostics.source import USER, kind_of
from fxport.exporter.capture.guards.instructions import places_of

CALLED = frozenset(
    {"stride", "storage_offset", "_is_view", "data_ptr", "untyped_storage", "is_set_to", "dim_order"}
    | {"is_contiguous", "as_strided", "new_empty_strided", "empty_strided"}
)
"""Methods and functions of tensors that tell of their memory, or depend on it."""

READ = "_base"
"""The attribute that does."""

VARIABLES = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "BINARY_SUBSCR")
"""Instructions that give what a variable or a container holds: `z is y`, not `kind is Kind.A` or `z is None`."""


COPYING = frozenset({"contiguous", "flatten", "ravel", "reshape", "reshape_as", "sum_to_size", "to", "type_as"})
"""Methods and functions that give the tensor itself, a view of it, or a copy, as its sizes and its memory have it."""

INDEXED = ("STORE_SUBSCR", "STORE_SLICE")


def write_by_size(functions: Sequence[FunctionType]) -> Place | None:
    """Return the first line of the user's functions that writes in place, if one of them makes what may be a copy."""
    own = [each.__code__ for each in functions if kind_of(each.__code__.co_filename) == USER]
    if not any(COPYING & set(names) for code in own for names in _names(code)):
        return None
    return next((place for code in own for _, place in places_of(code, _is_write)), None)


def _names(code: CodeType) -> Iterator[tuple[str, ...]]:
    """Yield the names of attributes and globals that a function, and those within it, speak of."""
    yield code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)


def layout_read_by(function: FunctionType) -> Place | None:
    """Return the first line of a function of the user's, or of one within it, that reads how tensors lie in memory."""
    code = function.__code__
    found = places_of(code, _is_read) if kind_of(code.co_filename) == USER else ()
    return next((place for _, place in found), None)


def _is_read(step: dis.Instruction, before: str) -> bool:
    is_attribute = step.opname == "LOAD_ATTR" and _name(step) == READ
    return (
        (_is_called(step) and _name(step) in CALLED) or is_attribute or (step.opname == "IS_OP" and before in VARIABLES)
    )


def _is_write(step: dis.Instruction, _: str) -> bool:
    name = _name(step)
    in_place = _is_called(step) and name.endswith("_") and not name.endswith("__")
    return in_place or step.opname in INDEXED or (step.opname == "BINARY_OP" and step.argrepr.endswith("="))


def _is_called(step: dis.Instruction) -> bool:
    return step.opname == "LOAD_METHOD" or "NULL|self" in step.argrepr


def _name(step: dis.Instruction) -> str:
    return step.argval if isinstance(step.argval, str) else ""
