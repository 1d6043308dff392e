"""Hostile ONNX models."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import helper, numpy_helper

from tests.hostile.cases import Case, Make, sparse, writes

HEADER = '<ir_version: 10, opset_import: ["" : 20, "my" : 1]>\n'
PORTS = "graph (float[2, 3] x) => (float[2, 3] output)"
LOOP = """{ n = Constant<value = int64 {9223372036854775807}>() c = Constant<value = bool {1}>()
    output = Loop(n, c, x) <body = b (int64 i, bool ci, float[2, 3] v) => (bool co, float[2, 3] w) {
        co = Identity(ci)  w = Relu(v) }> }"""
GROWING = """{ n = Constant<value = int64 {64}>() c = Constant<value = bool {1}>()
    v = Loop(n, c, x) <body = b (int64 i, bool ci, float[N, M] v) => (bool co, float[P, M] w) {
        co = Identity(ci)  w = Concat<axis = 0>(v, v) }> output = Relu(v) }"""
TEXTS = {
    "cycle": PORTS + "{ a = Add(x, b) b = Relu(a) output = Relu(b) }",
    "custom operator": PORTS + "{ output = my.Twist(x) }",
    "input of nobody": PORTS + "{ output = Add(x, nobody) }",
    "wrong types": PORTS + "{ a = Cast<to = 7>(x) output = Add(x, a) }",
    "sequence": "graph (float[2, 3] x) => (seq(float[2, 3]) output) { output = SequenceConstruct(x) }",
    "string": "graph (float[2, 3] x) => (string[2, 3] output) { output = Cast<to = 8>(x) }",
    "no nodes": "graph (float[2, 3] x) => (float[2, 3] output) { }",
    "more inputs": "graph (float[2, 3] x, float[2, 3] y) => (float[2, 3] output) { output = Add(x, y) }",
    "huge constant": PORTS + "{ s = Constant<value = int64[2] {99999999, 99999999}>() output = ConstantOfShape(s) }",
    "large constant": PORTS + "{ s = Constant<value = int64[2] {60000, 20000}>() a = ConstantOfShape(s) b = Exp(a)"
    " c = ReduceSum<keepdims = 0>(b) output = Add(x, c) }",
    "huge range": PORTS + "{ a = Constant<value = int64 {0}>() b = Constant<value = int64 {999999999999}>()"
    " c = Constant<value = int64 {1}>() r = Range(a, b, c) f = Cast<to = 1>(r)"
    " s = ReduceSum<keepdims = 0>(f) output = Add(x, s) }",
    "huge expand": PORTS
    + "{ s = Constant<value = int64[3] {99999, 2, 3}>() t = Constant<value = int64[4] {99999, 1, 1, 1}>()"
    " e = Expand(x, s) g = Expand(e, t) output = ReduceMax<keepdims = 0>(g) }",
    "huge random": PORTS + "{ r = RandomNormal<shape = [99999, 99999]>() output = ReduceMax<keepdims = 0>(r) }",
    "growing": PORTS + GROWING,
}


def text(body: str, name: str = "bad.onnx") -> Make:
    return lambda project: (project / name).write_bytes(onnx.parser.parse_model(HEADER + body).SerializeToString())


def model(change: Callable[[onnx.ModelProto], object]) -> Make:
    """A sound model as `change` leaves it."""

    def make(project: Path) -> None:
        made = sound()
        change(made)
        (project / "bad.onnx").write_bytes(made.SerializeToString())

    return make


def sound() -> onnx.ModelProto:
    """The model of `net.py`, with its weight in a file that does not exist."""
    made = onnx.parser.parse_model(HEADER + "graph (float[2, 3] x) => (float[2, 3] output) { output = Mul(x, w) }")
    tensor = numpy_helper.from_array(np.full((2, 3), 2, np.float32), "w")
    made.graph.initializer.append(tensor)
    return made


def located(location: str, offset: str = "0", length: str = "24") -> Callable[[onnx.ModelProto], object]:
    def change(made: onnx.ModelProto) -> None:
        (tensor,) = made.graph.initializer
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=value)

    return change


def beside(prepare: Make, location: str) -> Make:
    def make(project: Path) -> None:
        prepare(project)
        model(located(location))(project)

    return make


def functions(count: int, calls: Callable[[int], str]) -> Make:
    """A model of functions, each of which calls another one twice."""

    def make(project: Path) -> None:
        domains = [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]
        made = [helper.make_function("f", "f0", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])], domains)]
        for number in range(1, count + 1):
            nodes = [helper.make_node(calls(number), [a], [b], domain="f") for a, b in ("xt", "ty")]
            made.append(helper.make_function("f", f"f{number}", ["x"], ["y"], nodes, domains))
        ports = [helper.make_tensor_value_info(name, 1, [2, 3]) for name in ("x", "output")]
        graph = helper.make_graph(
            [helper.make_node(f"f{count}", ["x"], ["output"], domain="f")], "g", *([p] for p in ports)
        )
        onnx.save(helper.make_model(graph, functions=made, opset_imports=domains, ir_version=10), project / "bad.onnx")

    return make


def field(number: int, content: bytes) -> bytes:
    """A field of a message."""
    length, low = len(content), b""
    while length > 127:
        low, length = low + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + low + bytes([length]) + content


def nested(levels: int) -> bytes:
    """A graph in an attribute of a node of a graph in an attribute …"""
    inner = b""
    for _ in range(levels):
        inner = field(1, field(5, field(6, inner)))
    return b"\x08\x0a" + field(7, inner)


def many_nodes(count: int) -> bytes:
    return b"\x08\x0a" + field(7, field(1, b"") * count)


def places(table: str) -> Callable[[onnx.ModelProto], object]:
    def change(made: onnx.ModelProto) -> None:
        made.metadata_props.add(key="fxport.places", value=table)
        for node in made.graph.node:
            node.metadata_props.add(key="fxport.place", value="0")
        made.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.zeros((2, 3), np.float32), "w"))

    return change


def named(name: str) -> Callable[[onnx.ModelProto], object]:
    def change(made: onnx.ModelProto) -> None:
        made.graph.output[0].name = made.graph.node[0].output[0] = name
        made.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.zeros((2, 3), np.float32), "w"))

    return change


def tensor_of(dims: list[int], raw: bytes = bytes(24)) -> Callable[[onnx.ModelProto], object]:
    def change(made: onnx.ModelProto) -> None:
        made.graph.initializer[0].ClearField("dims")
        made.graph.initializer[0].dims.extend(dims)
        made.graph.initializer[0].raw_data = raw

    return change


def set_to(**values: object) -> Callable[[onnx.ModelProto], object]:
    def change(made: onnx.ModelProto) -> None:
        for name, value in values.items():
            setattr(made, name, value)

    return change


def opset(made: onnx.ModelProto) -> None:
    made.opset_import[0].version = 10**9


def twice(made: onnx.ModelProto) -> None:
    made.graph.node.extend(list(made.graph.node))


BYTES: dict[str, bytes] = {
    "empty": b"",
    "text": b"no model at all\n" * 100,
    "zeros": bytes(4096),
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8,
    "length beyond the end": b"\x08\x0a\x3a\xff\xff\xff\xff\x0f",
    "endless number": b"\x08" + b"\xff" * 5000,
    "field 0": b"\x02\x00" * 100,
    "nested 90 levels": nested(90),
    "nested 3,000 levels": nested(3000),
    "nested 10,000 levels": nested(10_000),
    "more nodes than a model has": many_nodes(1_100_000),
}
VALIDATE = ("validate", "bad.onnx", "--against", "net.py:net")
BENCH = ("bench", "bad.onnx", "--against", "net.py:net")
PLACE = ("place", "bad.onnx")
DIFF = ("diff", "good.onnx", "bad.onnx")


def good(make: Make) -> Make:
    def both(project: Path) -> None:
        (project / "good.onnx").write_bytes(sound().SerializeToString())
        make(project)

    return both


def large_text(project: Path) -> None:
    """A graph with a description of 300 MB, of which most are no bytes on the disk."""
    length = 300_000_000
    graph = b"\x52" + bytes(length >> 7 * i & 127 | (128 if i < 4 else 0) for i in range(5))
    whole = len(graph) + length
    start = b"\x08\x0a\x3a" + bytes(whole >> 7 * i & 127 | (128 if i < 4 else 0) for i in range(5)) + graph
    sparse("bad.onnx", len(start) + length, start)(project)


def cases() -> Iterator[Case]:
    """All of them, each with the command that opens it."""
    for name, content in BYTES.items():
        yield Case(f"model, {name}", writes("bad.onnx", content), VALIDATE)
    for name in ("empty", "nested 3,000 levels", "length beyond the end"):
        yield Case(f"model, {name}, place", writes("bad.onnx", BYTES[name]), PLACE)
        yield Case(f"model, {name}, diff", good(writes("bad.onnx", BYTES[name])), DIFF)
    yield Case("model, description of 300 MB", large_text, PLACE)
    for name, body in TEXTS.items():
        yield Case(f"model, {name}", text(body), VALIDATE)
    yield Case("model, endless loop", text(PORTS + LOOP), VALIDATE)
    yield Case("model, endless loop, bench", text(PORTS + LOOP), BENCH)
    yield Case("model, large constant, bench", text(TEXTS["large constant"]), BENCH)
    yield Case("model, custom operator, place", text(TEXTS["custom operator"]), PLACE)
    yield Case("model, 2^27 calls", functions(27, lambda number: f"f{number - 1}"), PLACE)
    yield Case("model, function calls itself", functions(1, lambda number: f"f{number}"), VALIDATE)
    yield Case("model, functions call each other", functions(4, lambda number: f"f{number % 4 + 1}"), PLACE)
    secret = json.dumps([["../outside/secret.py", 1, "m", "n"]])
    tables = {"deep": "[" * 100_000, "no table": "{}", "other rows": "[[[], 1, 2, 3]]", "number": "9" * 5000}
    for name, table in tables.items():
        yield Case(f"model, places {name}", model(places(table)), VALIDATE)
    for form in ("text", "github", "markdown", "json"):
        yield Case(f"model, places of a secret, {form}", model(places(secret)), (*VALIDATE, "--format", form))
    for path in ("/dev/zero", "/proc/self/environ", "pipe.py"):
        made = model(places(json.dumps([[path, 1, "m", "n"]])))
        yield Case(f"model, places in {path}", piped(made, "pipe.py"), VALIDATE)
    for name in ("y\n::error file=x::forged", "\x1b[2J\x1b]0;title\x07", "<script>alert(1)</script>", "‮" * 50):
        yield Case(f"model, output {name!r}", model(named(name)), (*VALIDATE, "--format", "github"))
    outside = {
        "absolute": "/etc/passwd",
        "upwards": "../outside/secret.data",
        "nothing": "nothing.data",
        "device": "/dev/zero",
        "folder": ".",
        "no name": "",
        "null": "a\0b",
        "long": "x" * 5000,
    }
    for name, location in outside.items():
        yield Case(f"model, weights {name}", model(located(location)), VALIDATE)
    yield Case("model, weights behind a link", beside(linked, "link.data"), VALIDATE)
    yield Case("model, weights behind a link to a folder", beside(linked_folder, "there/secret.data"), REPORTED)
    yield Case("model, weights in a pipe", beside(lambda project: os.mkfifo(project / "pipe"), "pipe"), VALIDATE)
    yield Case("model, weights at -8", model(located("net.py", "-8")), VALIDATE)
    yield Case("model, weights of a petabyte", model(located("net.py", "0", str(1 << 50))), VALIDATE)
    yield Case("model, weights of a word", model(located("net.py", "zero", "all")), VALIDATE)
    yield Case("model, weights of 12 TB in 24 bytes", model(tensor_of([1 << 40, 3])), VALIDATE)
    yield Case("model, weights of -1", model(tensor_of([-1, 3])), VALIDATE)
    yield Case("model, weights of 2^126", model(tensor_of([1 << 62, 1 << 62, 4])), REPORTED)
    yield Case("model, opset 10^9", model(opset), VALIDATE)
    yield Case("model, format 10^9", model(set_to(ir_version=10**9)), VALIDATE)
    yield Case("model, names given twice", model(twice), VALIDATE)


REPORTED = ("validate", "bad.onnx", "--against", "net.py:net", "--report", "report")


def piped(make: Make, name: str) -> Make:
    def both(project: Path) -> None:
        os.mkfifo(project / name)
        make(project)

    return both


def linked(project: Path) -> None:
    (project / "link.data").symlink_to("../outside/secret.data")


def linked_folder(project: Path) -> None:
    (project / "there").symlink_to("../outside")
