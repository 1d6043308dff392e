"""Models whose bytes are protobuf, but not as its own writers make it; texts with numbers and names of odd kinds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from onnx import numpy_helper

from tests.hostile import models, tensors, texts
from tests.hostile.cases import Case, Make, writes
from tests.hostile.models import DIFF, PLACE, VALIDATE, field, good
from tests.hostile.places import EXPORT

NOT_UTF8 = b"M\xc7l"
PORT = "Mql"
"""A name, in the place of which come the bytes above."""


def with_name(where: str) -> bytes:
    """A sound model with a name that is not UTF-8."""
    made = models.sound()
    node = made.graph.node[0]
    match where:
        case "an operator":
            node.op_type = PORT
        case "a node":
            node.name = PORT
        case "an output":
            node.output[0] = made.graph.output[0].name = PORT
        case "a size":
            made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = PORT
        case "metadata":
            made.metadata_props.add(key=PORT, value=PORT)
        case "a weight":
            node.input[1] = made.graph.initializer[0].name = PORT
        case _:
            made.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), PORT))
    return made.SerializeToString().replace(PORT.encode(), NOT_UTF8)


def varint(number: int) -> bytes:
    low = b""
    while number > 127:
        low, number = low + bytes([number & 127 | 128]), number >> 7
    return low + bytes([number])


def unpacked(count: int) -> Make:
    """A weight each of whose numbers is a field of its own."""

    def make(project: Path) -> None:
        made = models.sound()
        del made.graph.initializer[:]
        weight = b"\x08" + varint(count) + b"\x10\x01" + b"\x25\x00\x00\x00\x40" * count + field(8, b"w")
        graph = made.graph.SerializeToString() + field(5, weight)
        made.ClearField("graph")
        (project / "bad.onnx").write_bytes(made.SerializeToString() + field(7, graph))

    return make


WHERE = ("an operator", "a node", "an output", "a size", "metadata", "a weight", "a weight of nobody")
ODD_JSON = {
    "a number of 5,000 digits": b'{"model_type": "bert", "hidden_size": ' + b"9" * 5000 + b"}",
    "not a number": b'{"model_type": "bert", "hidden_size": NaN}',
    "a key twice": b'{"model_type": "bert", "model_type": "../x", "architectures": ["BertModel"]}',
    "half a character": b'{"model_type": "\\ud800", "architectures": ["\\udfff"]}',
    "a direction mark": '{"model_type": "\u202etreb", "architectures": ["\u2066BertModel"]}'.encode(),
    "an infinite size": b'{"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 1e999}',
    "a size below zero": b'{"model_type": "bert", "architectures": ["BertModel"], "num_hidden_layers": -1e308}',
}


def cases() -> Iterator[Case]:
    """All of them, each with the command that opens it."""
    for where in WHERE:
        made = writes("bad.onnx", with_name(where))
        yield Case(f"encoded, {where} is no UTF-8", made, VALIDATE)
        yield Case(f"encoded, {where} is no UTF-8, diff", good(made), DIFF)
    yield Case("encoded, an operator is no UTF-8, place", writes("bad.onnx", with_name("an operator")), PLACE)
    yield Case("encoded, 20 million numbers apart", unpacked(20_000_000), VALIDATE)
    for name, content in ODD_JSON.items():
        yield Case(f"transformers, {name} in its settings", in_folder(content), texts.FOLDER)
    for name, content in {
        "a number of 5,000 digits": b'{"version": "2.1.0", "runs": ' + b"9" * 5000 + b"}",
        "a line of 2^80": logged({"startLine": 1 << 80}),
        "a line of a fraction": logged({"startLine": 1.5}),
        "lines that end before": logged({"startLine": 9, "endLine": 2, "endColumn": -(1 << 70)}),
    }.items():
        yield Case(f"sarif, {name}", writes("bad.sarif", content), texts.VIEW, frozenset((0, 1, 2)))
    for name, header in {
        "a size of 5,000 digits": b'{"weight":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,24]}}',
        "a size that is not a number": b'{"weight":{"dtype":"F32","shape":[NaN,3],"data_offsets":[0,24]}}',
        "a name twice": b'{"weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},'
        b'"weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,0]}}',
        "a name of half a character": b'{"\\ud800":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}',
        "a size of true": b'{"weight":{"dtype":"F32","shape":[true,6],"data_offsets":[0,24]}}',
    }.items():
        content = len(header).to_bytes(8, "little") + header + bytes(24)
        yield Case(f"safetensors, {name}", writes("bad.safetensors", content), (*tensors.WEIGHTS, "bad.safetensors"))
    digits = "9" * 5000
    for name, option in {
        "--dynamic with 5,000 digits": ("--dynamic", f"x:0=b[2..{digits}]"),
        "--dynamic at dim 5,000 digits": ("--dynamic", f"x:{digits}=b"),
        "--dynamic with 2^70": ("--dynamic", f"x:0=b[2..{1 << 70}]"),
        "--dynamic of zero": ("--dynamic", "x:0=b[..0]"),
        "--dynamic of a keyword": ("--dynamic", "x:0=class"),
        "--input with 5,000 digits": ("--input", f"x={digits}x3"),
        "--input of 2^62": ("--input", f"x={1 << 62}x3"),
        "--input of 10^12": ("--input", "x=1000000x1000000"),
        "--input in a range of 2^80": ("--input", f"x=2x3:int64:0..{1 << 80}"),
        "--init with 5,000 digits": ("--init", f"a={digits}"),
        "--init of 9,999 brackets": ("--init", "a=" + "[" * 9999),
        "--output-names with a line": ("--output-names", "a\n::error::forged"),
        "--output-names of an escape": ("--output-names", "\x1b[2J"),
        "-o of 300 bytes": ("-o", "x" * 300 + ".onnx"),
        "-o over its source": ("-o", "net.py"),
        "-o with a line": ("-o", "a\n::error::forged.onnx"),
        "--sarif over its source": ("--sarif", "net.py"),
        "--opset of 5,000 digits": ("--opset", digits),
    }.items():
        yield Case(f"text, {name}", writes("a", ""), (*EXPORT, *option), frozenset((0, 1, 2)))


def logged(region: dict[str, object]) -> bytes:
    made = json.loads(texts.sarif([texts.result("net.py")]))
    made["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"] = region
    return json.dumps(made).encode()


def in_folder(config: bytes) -> Make:
    def make(project: Path) -> None:
        (project / "folder").mkdir()
        (project / "folder" / "config.json").write_bytes(config)

    return make
