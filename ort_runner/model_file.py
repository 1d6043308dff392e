"""Reads an ONNX file without its weights: nodes and their provenance, and the files that hold external data.

A model may be larger than memory and protobuf's parser copies every byte, so this walks the wire format over a memory
map (https://protobuf.dev/programming-guides/encoding) and parses single nodes and small tensors only.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics import Place
from fxport.ort_runner.provenance import PLACES_KEY, rows_of
from fxport.ort_runner.wire import NO_MODEL, fields_of

if TYPE_CHECKING:
    import onnx

INLINED = "_inlfunc_"
PLACE_KEY = "fxport.place"
MOST_FIELDS = 1000
"""Of a tensor that are looked at one by one: one of more has texts as values, which protobuf may read."""

LONGEST_INDEX = 12  # digits


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """One node of the model, of its functions or of the bodies in them."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    place: int | None


@dataclass(frozen=True, slots=True)
class ModelFile:
    """Content of the file besides weights. `external` maps tensor names to (location, offset, length or None)."""

    path: Path
    nodes: tuple[NodeRecord, ...] = ()
    places: tuple[Place, ...] = ()
    external: Mapping[str, tuple[str, int, int | None]] = field(default_factory=dict)

    def size(self) -> int:
        """Bytes of the file and of the external data that it refers to."""
        files = {self.path.parent / location for location, _, _ in self.external.values()}
        return sum(file.stat().st_size for file in (self.path, *files) if file.is_file())

    def place_of_node(self, name: str) -> Place:
        """The user's line of a node that ONNX Runtime named, else the model file.

        ONNX Runtime inlines functions and names their nodes `_inlfunc_<function>_<node>`, with a token before the node
        from the second call on: such a name is that of the node whose name it ends with, the longest if there are more.
        """
        best = next((node for node in self.nodes if node.name == name), None) if name else None
        if best is None and name.startswith(INLINED):
            found = (node for node in self.nodes if node.name and name.endswith(f"_{node.name}"))
            best = max(found, key=lambda node: len(node.name), default=None)
        return self._place(best, name)

    def place_of_value(self, name: str) -> Place:
        """The user's line of the node that makes a value, else the model file."""
        maker = next((node for node in self.nodes if name in node.outputs), None)
        return self._place(maker, maker.name if maker else None)

    def _place(self, node: NodeRecord | None, name: str | None) -> Place:
        if node is not None and node.place is not None and 0 <= node.place < len(self.places):
            place = self.places[node.place]
            return Place(place.path, place.line, place.column, module=place.module, node=place.node, onnx_node=name)
        return Place(str(self.path), 1, 1, onnx_node=name or None)


def read_model_file(path: Path) -> ModelFile:
    """Raises ValueError if the file is no protobuf message of an ONNX model, OSError if it cannot be read."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise ValueError("the file is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(path, data)


def read_shapes(path: Path) -> dict[str, tuple[int | str | None, ...]]:
    """The declared shapes of values and outputs, of the graph and of its functions, in a sound file."""
    import onnx

    graph, function = onnx.GraphProto, onnx.FunctionProto
    values = {
        onnx.ModelProto.GRAPH_FIELD_NUMBER: (graph.OUTPUT_FIELD_NUMBER, graph.VALUE_INFO_FIELD_NUMBER),
        onnx.ModelProto.FUNCTIONS_FIELD_NUMBER: (function.VALUE_INFO_FIELD_NUMBER,),
    }
    shapes: dict[str, tuple[int | str | None, ...]] = {}
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for number, start, end in fields_of(data, 0, len(data)):
            for inner, first, last in fields_of(data, start, end) if number in values else ():
                if inner in values[number]:
                    value = onnx.ValueInfoProto.FromString(data[first:last])
                    if value.type.tensor_type.HasField("shape"):
                        shapes[value.name] = tuple(_dim(dim) for dim in value.type.tensor_type.shape.dim)
    return shapes


def _dim(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    return dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None


def missing_external_data(model: ModelFile) -> Iterator[tuple[str, str]]:
    """(location, reason) for each file of weights that is absent, too short, or not in the model's folder."""
    folder = model.path.parent.resolve()
    needed: dict[str, int] = {}
    for location, offset, length in model.external.values():
        needed[location] = max(needed.get(location, 0), offset + (length or 0))
    for location, size in needed.items():
        file = (folder / location).resolve()
        if Path(location).is_absolute() or not file.is_relative_to(folder):
            yield location, "it is outside the model's folder"
        elif not file.is_file():
            yield location, "there is no such file"
        elif (present := file.stat().st_size) < size:
            yield location, f"it has {present} bytes, but the model needs {size}"


def _read(path: Path, data: mmap.mmap) -> ModelFile:
    import onnx
    from google.protobuf.message import DecodeError

    model, graph = onnx.ModelProto, onnx.GraphProto
    bodies = {
        model.GRAPH_FIELD_NUMBER: graph.NODE_FIELD_NUMBER,
        model.FUNCTIONS_FIELD_NUMBER: onnx.FunctionProto.NODE_FIELD_NUMBER,
    }
    nodes: list[NodeRecord] = []
    external: dict[str, tuple[str, int, int | None]] = {}
    places: tuple[Place, ...] = ()
    try:
        for number, start, end in fields_of(data, 0, len(data)):
            if number == model.METADATA_PROPS_FIELD_NUMBER:
                entry = onnx.StringStringEntryProto.FromString(data[start:end])
                if entry.key == PLACES_KEY:
                    places = _places(path, entry.value)
            for inner, first, last in fields_of(data, start, end) if number in bodies else ():
                if inner == bodies[number]:
                    _read_node(onnx.NodeProto.FromString(data[first:last]), nodes, external)
                elif number == model.GRAPH_FIELD_NUMBER and inner == graph.INITIALIZER_FIELD_NUMBER:
                    _read_tensor(data, first, last, external)
    except DecodeError as error:
        raise ValueError(NO_MODEL) from error
    return ModelFile(path, tuple(nodes), places, external)


def _read_node(node: onnx.NodeProto, nodes: list[NodeRecord], external: dict[str, tuple[str, int, int | None]]) -> None:
    mark = next((entry.value for entry in node.metadata_props if entry.key == PLACE_KEY), "")
    place = int(mark) if isinstance(mark, str) and mark.isdecimal() and len(mark) <= LONGEST_INDEX else None
    nodes.append(NodeRecord(node.name, node.op_type, tuple(node.input), tuple(node.output), place))
    for attribute in node.attribute:
        if attribute.HasField("t"):
            _note_external(attribute.t, external)
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            for inner in graph.node:
                _read_node(inner, nodes, external)
            for tensor in graph.initializer:
                _note_external(tensor, external)


def _read_tensor(data: mmap.mmap, start: int, end: int, external: dict[str, tuple[str, int, int | None]]) -> None:
    import onnx

    fields = islice(fields_of(data, start, end), MOST_FIELDS)
    if any(number == onnx.TensorProto.RAW_DATA_FIELD_NUMBER and last > first for number, first, last in fields):
        return  # the weights are in this file
    _note_external(onnx.TensorProto.FromString(data[start:end]), external)


def _note_external(tensor: onnx.TensorProto, external: dict[str, tuple[str, int, int | None]]) -> None:
    if tensor.data_location != tensor.EXTERNAL:
        return
    entries = {entry.key: entry.value for entry in tensor.external_data}
    try:
        offset, length = int(entries.get("offset") or 0), int(entries["length"]) if entries.get("length") else None
        if offset < 0 or (length or 0) < 0:
            raise ValueError("negative")
    except ValueError as error:
        raise ValueError(f"the external data of '{tensor.name}' has no proper offset and length") from error
    external[tensor.name] = (entries.get("location", ""), offset, length)


def _places(path: Path, text: str) -> tuple[Place, ...]:
    """The provenance table; a node of no line is of the model file."""
    return tuple(
        Place(file or str(path), line, None if file else 1, module=module, node=node)
        for file, line, module, node in rows_of(text)
    )
