"""Source places: a table of places that nodes index, and the FX value of an ONNX value."""

from __future__ import annotations

import json
from typing import Any

import onnx_ir as ir
from torch.fx import Node

from fxport.diagnostics import Place
from fxport.diagnostics.source import place_of_trace
from fxport.exporter.lowering.lower.builder import PLACE
from fxport.fx_passes.graph import place_of

TABLE = "fxport.places"
"""Model metadata: JSON list of [path, line, module path, FX node]; a node's `fxport.place` is an index into it."""

LONGEST_INDEX = 12
"""Digits of an index into the table of a stranger's model: Python refuses to read numbers of thousands of digits."""

VALUE = "fxport.value"
"""Value metadata: the FX values that it is, "linear_3", or "split.1" for the second result of a node; several, in their
order, with a space between them, where an operation passes on what it was given."""


def mark(result: Any, name: str) -> None:
    """Notes on the ONNX values of an FX node which FX value they are, behind those that they are already."""
    if isinstance(result, ir.Value):
        _note(result, name)
    elif isinstance(result, (tuple, list)):
        for index, each in enumerate(result):
            if isinstance(each, ir.Value):
                _note(each, f"{name}.{index}")


def _note(value: ir.Value, key: str) -> None:
    held = value.metadata_props.get(VALUE)
    value.metadata_props[VALUE] = key if held is None else f"{held} {key}"


def keys_of(value: ir.Value) -> list[str]:
    """The FX values that a value is."""
    return value.metadata_props.get(VALUE, "").split()


def remark(new: ir.Value, old: ir.Value) -> None:
    """`new` holds from now on what `old` held before."""
    new.metadata_props.pop(VALUE, None)
    if VALUE in old.metadata_props:
        new.metadata_props[VALUE] = old.metadata_props.pop(VALUE)


class PlaceTable:
    """The table of a finished model, for findings about its nodes."""

    def __init__(self, model: ir.Model) -> None:
        self._rows = json.loads(model.metadata_props.get(TABLE, "[]"))

    def of(self, node: ir.Node) -> Place | None:
        """The user's line that an ONNX node came from; None for a node without one."""
        index = node.metadata_props.get(PLACE, "")
        if not index.isdecimal() or len(index) > LONGEST_INDEX or int(index) >= len(self._rows):
            return None
        path, line, module, fx_node = self._rows[int(index)]
        return None if path is None else Place(path, line, module=module, node=fx_node, onnx_node=node.name)


class Places:
    """Interns the places of FX nodes while a model is lowered."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str | None, int | None, str | None, str], int] = {}

    def index(self, node: Node) -> int:
        return self._row(place_of(node), node.name)

    def of_trace(self, trace: str) -> int:
        """The index of the user's line that a stack trace leads to."""
        return self._row(place_of_trace(trace), "")

    def _row(self, place: Place | None, name: str) -> int:
        row = (place.path, place.line, place.module, name) if place else (None, None, None, name)
        return self._rows.setdefault(row, len(self._rows))

    def as_json(self) -> str:
        return json.dumps(list(self._rows), separators=(",", ":"))
