"""The wire format of an ONNX file (https://protobuf.dev/programming-guides/encoding): its fields, and its size."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics.amounts import size
from fxport.diagnostics.limits import STRUCTURE, LimitError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

FIELDS_OF_A_NODE = 32
"""Texts, bytes and messages for each node of the largest model: more fields than those are refused."""

NO_MODEL = "the file is no ONNX model, or is cut off"


def _number_field(kind: int, content: bytes) -> bytes:
    """The pattern of a field whose wire type is `kind`, with a key of one to five bytes."""
    short, long = (re.escape(bytes(range(first | kind, first + 0x80, 8))) for first in (0, 0x80))
    short = short.removeprefix(re.escape(b"\x00"))  # there is no field 0
    return b"(?:[%b]|[%b][\x80-\xff]{0,3}[\x01-\x7f])%b" % (short, long, content)


NUMBERS = re.compile(
    b"(?:%b|%b|%b)++"
    % (
        _number_field(VARINT, rb"[\x80-\xff]{0,9}[\x00-\x7f]"),
        _number_field(FIXED32, b".{4}"),
        _number_field(FIXED64, b".{8}"),
    ),
    re.DOTALL,
)
"""Fields that are numbers, one after another: a weight may have each of its values as such a field."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields of a message by number: those that are texts, and those that are messages."""

    texts: frozenset[int]
    messages: Mapping[int, Descriptor]


@cache
def fields_in(message: Descriptor) -> Fields:
    """The texts and messages in a message of ONNX, as the installed onnx describes it."""
    return Fields(
        frozenset(field.number for field in message.fields if field.type == field.TYPE_STRING),
        {field.number: field.message_type for field in message.fields if field.message_type is not None},
    )


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
    import onnx

    assert STRUCTURE.items is not None
    assert STRUCTURE.bytes is not None
    node, weights = onnx.NodeProto.DESCRIPTOR, onnx.TensorProto.DESCRIPTOR
    nodes = structure = fields = 0
    waiting = [(onnx.ModelProto.DESCRIPTOR, 0, len(data))]
    while waiting:
        message, start, end = waiting.pop()
        inner, is_weight = fields_in(message), message is weights
        nodes += message is node
        structure += 0 if is_weight else end - start
        for number, first, last in fields_of(data, start, end):
            fields += 1
            if fields > FIELDS_OF_A_NODE * STRUCTURE.items:
                raise LimitError(f"more than {fields - 1:,} texts and messages are too much for {STRUCTURE.what}")
            if number in inner.texts:
                _require_text(data[first:last])
                structure += (last - first) * is_weight
            elif number in inner.messages:
                structure -= (last - first) * (not is_weight)
                waiting.append((inner.messages[number], first, last))
        if nodes > STRUCTURE.items or structure > STRUCTURE.bytes:
            told = f"{STRUCTURE.items:,} nodes, or {size(STRUCTURE.bytes)},"
            raise LimitError(f"more than {told} are too much for {STRUCTURE.what}")


def _require_text(content: bytes) -> None:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"a name or text in it is not UTF-8: {content[:40]!r}") from error


def fields_of(data: mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(field number, first byte, end) of each text, message and other field of bytes in the message data[start:end].

    Fields that are numbers are passed over, but packed ones. Raises ValueError for what is no message.
    """
    while start < end:
        key, first = _varint(data, start, end)
        if key & 7 == BYTES and key >> 3:
            length, first = _varint(data, first, end)
            start = first + length
            if start > end:
                raise ValueError(NO_MODEL)
            yield key >> 3, first, start
        elif numbers := NUMBERS.match(data, start, end):
            start = numbers.end()
        else:
            raise ValueError(NO_MODEL)


def _varint(data: mmap.mmap, start: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while start < end and shift < 70:
        byte = data[start]
        value |= (byte & 0x7F) << shift
        start, shift = start + 1, shift + 7
        if byte < 0x80:
            return value, start
    raise ValueError(NO_MODEL)
