"""The wire format of ONNX files: each text that onnx knows is looked at, and numbers apart take bounded time."""

from __future__ import annotations

import mmap
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxport.diagnostics.limits import STRUCTURE, LimitError
from fxport.ort_runner import wire
from fxport.ort_runner.wire import NO_MODEL, fields_of, require_bounded

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
NOT_UTF8 = b"M\xc7l"


def varint(number: int) -> bytes:
    low = b""
    while number > 127:
        low, number = low + bytes([number & 127 | 128]), number >> 7
    return low + bytes([number])


def field(number: int, content: bytes, kind: int = BYTES) -> bytes:
    return varint(number << 3 | kind) + (varint(len(content)) if kind == BYTES else b"") + content


def texts_of_onnx() -> Iterator[tuple[FieldDescriptor, ...]]:
    """Fields that lead from a model to each text in it; through each message once."""
    whole: Any = onnx.ModelProto.DESCRIPTOR  # Any: protobuf's stubs name two types for one
    waiting: list[tuple[Descriptor, tuple[FieldDescriptor, ...]]] = [(whole, ())]
    seen = {whole.full_name}
    while waiting:
        message, path = waiting.pop(0)
        for each in message.fields:
            if each.type == each.TYPE_STRING:
                yield (*path, each)
            elif each.message_type is not None and each.message_type.full_name not in seen:
                seen.add(each.message_type.full_name)
                waiting.append((each.message_type, (*path, each)))


TEXTS = list(texts_of_onnx())


def test_texts_of_every_kind_are_found() -> None:
    """Hold names that a table by hand did not have, in messages of all depths."""
    names = {path[-1].full_name.removeprefix("onnx.") for path in TEXTS}
    assert names > {"OperatorSetIdProto.domain", "TypeProto.denotation", "TensorProto.name", "NodeProto.overload"}
    assert names > {"TensorAnnotation.tensor_name", "StringStringEntryProto.key"}
    assert "TensorShapeProto.Dimension.denotation" in names


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: ".".join(each.name for each in path))
def test_a_text_that_is_not_utf8_is_refused(path: tuple[FieldDescriptor, ...], tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    for content, is_refused in ((b"M\xc3\x87l", False), (NOT_UTF8, True)):
        for each in reversed(path):
            content = field(each.number, content)
        model.write_bytes(content)
        if not is_refused:
            require_bounded(model)
            continue
        with pytest.raises(ValueError, match="is not UTF-8"):
            require_bounded(model)


def mapped(content: bytes) -> mmap.mmap:
    with tempfile.TemporaryFile() as file:
        file.write(content or b"\0")
        file.flush()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def contents_of(content: bytes) -> list[tuple[int, bytes]]:
    with mapped(content) as data:
        return [(number, data[first:last]) for number, first, last in fields_of(data, 0, len(content))]


NUMBERS = st.integers(1, 2**29 - 1) | st.integers(1, 30)
FIELDS = st.one_of(
    st.tuples(NUMBERS, st.just(VARINT), st.integers(0, 2**64 - 1).map(varint)),
    st.tuples(NUMBERS, st.just(FIXED64), st.binary(min_size=8, max_size=8)),
    st.tuples(NUMBERS, st.just(FIXED32), st.binary(min_size=4, max_size=4)),
    st.tuples(NUMBERS, st.just(BYTES), st.binary(max_size=200)),
)


@given(st.lists(FIELDS, max_size=20))
def test_fields_are_those_that_were_written(fields: list[tuple[int, int, bytes]]) -> None:
    written = b"".join(field(number, content, kind) for number, kind, content in fields)
    assert contents_of(written) == [(number, content) for number, kind, content in fields if kind == BYTES]


@pytest.mark.parametrize(
    "content",
    [
        *(b"\x08", b"\x08\x80", b"\x08" + b"\x80" * 10 + b"\x01", b"\x0d\0\0\0", b"\x09\0\0\0\0\0\0\0"),
        *(b"\x00\x01", b"\x02\x01a", b"\x0a\x02a", b"\x0b\x0c", b"\x0e", b"\x0f", b"\x80", b"\x80" * 11),
        *(b"\x80\x00\x01", b"\x0a", b"\x0a\x80"),
    ],
    ids=bytes.hex,
)
def test_what_is_no_message_is_refused(content: bytes) -> None:
    for before in (b"", b"\x08\x01", b"\x0a\x01a"):
        with pytest.raises(ValueError, match=NO_MODEL):
            contents_of(before + content)


@pytest.mark.parametrize("one", [b"\x25\x00\x00\x00\x40", b"\x38\x01", b"\x51" + b"\x00" * 8], ids=bytes.hex)
def test_a_weight_with_a_field_for_each_number_takes_bounded_time(one: bytes, tmp_path: Path) -> None:
    """One by one, a million fields took a second of CPU."""
    model, number = onnx.ModelProto.GRAPH_FIELD_NUMBER, onnx.GraphProto.INITIALIZER_FIELD_NUMBER
    path = tmp_path / "m.onnx"
    path.write_bytes(field(model, field(number, one * 5_000_000)))
    start = time.process_time()
    require_bounded(path)
    assert time.process_time() - start < 2


def test_texts_without_number_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert STRUCTURE.items is not None
    most = 1000
    monkeypatch.setattr(wire, "FIELDS_OF_A_NODE", most / STRUCTURE.items)
    path = tmp_path / "m.onnx"
    for inputs in (most - 2, most + 1):
        node = field(onnx.NodeProto.INPUT_FIELD_NUMBER, b"") * inputs
        graph = field(onnx.GraphProto.NODE_FIELD_NUMBER, node)
        path.write_bytes(field(onnx.ModelProto.GRAPH_FIELD_NUMBER, graph))
        if inputs < most:
            require_bounded(path)
        else:
            with pytest.raises(LimitError, match=f"more than {most:,} texts and messages"):
                require_bounded(path)


def test_texts_of_a_weight_count_and_its_values_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "STRUCTURE", type(STRUCTURE)(STRUCTURE.what, bytes=1000, items=10))
    path, tensor = tmp_path / "m.onnx", onnx.TensorProto
    for number, is_refused in ((tensor.RAW_DATA_FIELD_NUMBER, False), (tensor.DOC_STRING_FIELD_NUMBER, True)):
        weight = field(onnx.GraphProto.INITIALIZER_FIELD_NUMBER, field(number, b"a" * 2000))
        path.write_bytes(field(onnx.ModelProto.GRAPH_FIELD_NUMBER, weight))
        if is_refused:
            with pytest.raises(LimitError, match="more than 10 nodes, or"):
                require_bounded(path)
        else:
            require_bounded(path)
