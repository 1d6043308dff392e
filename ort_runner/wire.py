"""The wire format of an ONNX file (https://protobuf.dev/programming-guides/encoding): its fields, and its size."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from fxport.diagnostics.amounts import size
from fxport.diagnostics.limits import STRUCTURE, LimitError

# Field numbers of onnx.proto.
MODEL_GRAPH, MODEL_METADATA, MODEL_TRAINING, MODEL_FUNCTIONS = 7, 14, 20, 25
GRAPH_NODE, GRAPH_INITIALIZER, GRAPH_INPUT, GRAPH_OUTPUT, GRAPH_VALUE, GRAPH_SPARSE = 1, 5, 11, 12, 13, 15
GRAPH_METADATA = 16
FUNCTION_NODE, FUNCTION_VALUE = 7, 12
NODE_ATTRIBUTE = 5
ATTRIBUTE_TENSOR, ATTRIBUTE_GRAPH, ATTRIBUTE_TENSORS, ATTRIBUTE_GRAPHS, ATTRIBUTE_SPARSE, ATTRIBUTE_SPARSES = (
    *(5, 6, 10, 11),
    *(22, 23),
)
RAW_DATA = 9

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED = MappingProxyType({FIXED64: 8, FIXED32: 4})

WEIGHTS = "weights"
NESTED: Mapping[str, Mapping[int, str]] = {
    "model": {
        MODEL_GRAPH: "graph",
        MODEL_FUNCTIONS: "function",
        MODEL_TRAINING: "training",
        MODEL_METADATA: "entry",
    },
    "training": {1: "graph", 2: "graph"},
    "graph": {
        GRAPH_NODE: "node",
        GRAPH_INITIALIZER: WEIGHTS,
        GRAPH_SPARSE: WEIGHTS,
        **dict.fromkeys((GRAPH_INPUT, GRAPH_OUTPUT, GRAPH_VALUE), "value"),
        GRAPH_METADATA: "entry",
    },
    "function": {FUNCTION_NODE: "node", 11: "attribute", FUNCTION_VALUE: "value", 14: "entry"},
    "node": {NODE_ATTRIBUTE: "attribute", 9: "entry"},
    "value": {2: "type", 4: "entry"},
    "type": {1: "tensor type", 4: "type of parts", 5: "map type", 8: "tensor type", 9: "type of parts"},
    "type of parts": {1: "type"},
    "map type": {2: "type"},
    "tensor type": {2: "shape"},
    "shape": {1: "size"},
    "size": {},
    "entry": {},
    "attribute": {
        ATTRIBUTE_GRAPH: "graph",
        ATTRIBUTE_GRAPHS: "graph",
        **dict.fromkeys((ATTRIBUTE_TENSOR, ATTRIBUTE_TENSORS, ATTRIBUTE_SPARSE, ATTRIBUTE_SPARSES), WEIGHTS),
    },
}
"""Messages within a message, by field number; all other fields are plain values."""

TEXTS: Mapping[str, frozenset[int]] = {
    "model": frozenset((2, 3, 4, 6)),
    "graph": frozenset((2, 10)),
    "function": frozenset((1, 4, 5, 6, 8, 10, 13)),
    "node": frozenset((1, 2, 3, 4, 6, 7, 8)),
    "attribute": frozenset((1, 13, 21)),
    "value": frozenset((1, 3)),
    "size": frozenset((2, 3)),
    "entry": frozenset((1, 2)),
}
"""Fields that are texts, by message: protobuf wants UTF-8 there, and its Python gives bytes for what is none."""

NO_MODEL = "the file is no ONNX model, or is cut off"


def require_bounded(path: Path) -> None:
    """Refuse a file whose model has more nodes, or more bytes besides its weights, than may be read into memory.

    Nodes in bodies and functions count. Raises ValueError, also for what is no protobuf message of a model, and
    OSError. An empty file passes.
    """
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                _require_bounded(data)


def _require_bounded(data: mmap.mmap) -> None:
    nodes = structure = 0
    waiting = [("model", 0, len(data))]
    while waiting:
        kind, start, end = waiting.pop()
        nodes += kind == "node"
        structure += end - start
        inner, texts = NESTED[kind], TEXTS.get(kind, ())
        for number, first, last in fields_of(data, start, end):
            if number in texts:
                _require_text(data[first:last])
            if number in inner:
                structure -= last - first
                if (name := inner[number]) is not WEIGHTS:
                    waiting.append((name, first, last))
        if nodes > (STRUCTURE.items or nodes) or structure > (STRUCTURE.bytes or structure):
            told = f"{STRUCTURE.items:,} nodes, or {size(STRUCTURE.bytes or 0)},"
            raise LimitError(f"more than {told} are too much for {STRUCTURE.what}")


def _require_text(content: bytes) -> None:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"a name or text in it is not UTF-8: {content[:40]!r}") from error


def fields_of(data: mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(field number, first byte, end) of each field of the message in data[start:end]."""
    while start < end:
        key, start = _varint(data, start, end)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            _, last = _varint(data, start, end)
        elif kind == BYTES:
            length, start = _varint(data, start, end)
            last = start + length
        else:
            last = start + _FIXED.get(kind, end - start + 1)
        if last > end or number == 0:
            raise ValueError(NO_MODEL)
        yield number, start, last
        start = last


def _varint(data: mmap.mmap, start: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while start < end and shift < 70:
        byte = data[start]
        value |= (byte & 0x7F) << shift
        start, shift = start + 1, shift + 7
        if byte < 0x80:
            return value, start
    raise ValueError(NO_MODEL)
