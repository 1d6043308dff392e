"""ONNX files that are broken or mean harm, on the command line: a located finding or one line, and nothing read."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import onnx.numpy_helper
import onnx.parser
import pytest
import torch

from fxport import export
from fxport.exporter.cli import main
from tests.ort_runner.test_parent import calls_of_calls

Make = Callable[[Path, bytes], object]
"""Writes a file, given the bytes of a sound one."""
Output = pytest.CaptureFixture[str]
HEADER = '<ir_version: 10, opset_import: ["" : 20, "mylib" : 1]>\n'
CYCLE = "graph (float[2, 3] x) => (float[2, 3] output) { a = Add(x, b) b = Relu(a) output = Relu(b) }"
CUSTOM = "graph (float[2, 3] x) => (float[2, 3] output) { output = mylib.Twist(x) }"
HUGE = """graph (float[2, 3] x) => (float[99999999, 99999999] output) {
    size = Constant<value = int64[2] {99999999, 99999999}>()
    output = ConstantOfShape(size)
}"""
SOURCE = """\
import torch

def wide():
    return torch.nn.Linear(3, 100).eval(), (torch.ones(2, 3),)
"""


def written(text: str) -> Make:
    def make(path: Path, sound: bytes) -> None:
        path.write_bytes(onnx.parser.parse_model(HEADER + text).SerializeToString())

    return make


def with_weights_at(location: str) -> Make:
    def make(path: Path, sound: bytes) -> None:
        model = onnx.load_from_string(sound)
        for tensor in model.graph.initializer:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = location
        path.write_bytes(model.SerializeToString())

    return make


def cut(path: Path, sound: bytes) -> None:
    path.write_bytes(sound[: len(sound) // 2])


def too_long(path: Path, sound: bytes) -> None:
    """Weights that claim to be a petabyte."""
    model = onnx.load_from_string(sound)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "length":
                entry.value = str(1 << 50)
    path.write_bytes(model.SerializeToString())


def declared_huge(path: Path, sound: bytes) -> None:
    """A weight of 12 TB by its shape, with the bytes of a small one."""
    model = onnx.load_from_string(sound)
    tensor = model.graph.initializer[0]
    del tensor.external_data[:]
    tensor.data_location = onnx.TensorProto.DEFAULT
    tensor.raw_data = bytes(1200)
    tensor.dims[0] = 1 << 40
    path.write_bytes(model.SerializeToString())


ROWS = [
    ("truncated", cut, 2, "is no ONNX model"),
    ("empty", lambda path, sound: path.write_bytes(b""), 2, "is no ONNX model"),
    ("absolute path", with_weights_at("/etc/passwd"), 1, "it is outside the model's folder"),
    ("path upwards", with_weights_at("../secret.data"), 1, "it is outside the model's folder"),
    ("link", with_weights_at("link.data"), 1, "it is outside the model's folder"),
    ("no file", with_weights_at("nothing.data"), 1, "there is no such file"),
    ("too long", too_long, 1, "but the model needs 1125899906842624"),
    ("huge weight", declared_huge, 1, "exceeds the 2147483648 byte limit"),
    ("cycle", written(CYCLE), 1, "not acyclic"),
    ("custom operator", written(CUSTOM), 1, "mylib:Twist"),
    ("huge result", written(HUGE), 1, "Failed to allocate memory"),
]


@pytest.fixture
def sound(folder: Path) -> bytes:
    """A sound model with its weights beside it, and a file outside of the folder that no model may read."""
    inside = folder / "inside"
    inside.mkdir()
    (inside / "net.py").write_text(SOURCE)
    (folder / "secret.data").write_bytes(bytes(1200))
    (inside / "link.data").symlink_to(folder / "secret.data")
    program = export(torch.nn.Linear(3, 100).eval(), (torch.ones(2, 3),))
    program.save(inside / "sound.onnx", external_data=True)
    return (inside / "sound.onnx").read_bytes()


@pytest.mark.parametrize(("name", "make", "code", "said"), ROWS, ids=[row[0] for row in ROWS])
def test_validate_and_diff(
    sound: bytes,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Output,
    name: str,
    make: Make,
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(folder / "inside")
    make(Path("bad.onnx"), sound)
    capsys.readouterr()
    assert main(["validate", "bad.onnx", "--against", "net.py:wide", "--no-bisect"]) == code
    told = capsys.readouterr()
    assert said in told.out + told.err
    if code == 1:
        assert "--> bad.onnx:1:1" in told.out
        assert "\\x" not in told.out  # a binary file has no line to show
    ended = main(["diff", "sound.onnx", "bad.onnx"])
    told = capsys.readouterr()
    assert ended in (0, 1, 2)
    if "folder" in said or "file" in said or "needs" in said:
        assert ended == 1
        assert said in told.out
    assert "FXP9001" not in told.out


def test_sound_weights_are_read(sound: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "inside")
    assert main(["diff", "sound.onnx", "sound.onnx"]) == 0


FORGED = "y\n::error file=/etc/passwd,line=1::forged"
EVERY_FORM = ("text", "github", "json", "gitlab", "markdown", "junit", "html")


@pytest.fixture
def strangers(sound: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model with other weights than `wide`, with a forged name, whose metadata names a file outside of the folder."""
    monkeypatch.chdir(folder / "inside")
    secret = folder / "secret.py"
    secret.write_text("password = 'tell nobody'\n")
    model = onnx.load(folder / "inside" / "sound.onnx")
    for tensor in model.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor) + 1, tensor.name))
    for entry in model.metadata_props:
        if entry.key == "fxport.places":
            rows = [[str(secret), 1, module, node] for _, _, module, node in json.loads(entry.value)]
            entry.value = json.dumps(rows)
    for node in model.graph.node:
        node.output[:] = [FORGED if name == model.graph.output[0].name else name for name in node.output]
    model.graph.output[0].name = FORGED
    path = folder / "inside" / "bad.onnx"
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("form", EVERY_FORM)
def test_a_strangers_model_shows_no_files_and_forges_no_command(form: str, strangers: Path, capsys: Output) -> None:
    arguments = ["--against", "net.py:wide", "--format", form, "--report", "report", "--sarif", "log.sarif"]
    assert main(["validate", str(strangers), *arguments]) == 1
    told = capsys.readouterr()
    assert "secret.py" in told.out  # its name, as what it is
    files = [file.read_text(encoding="utf-8") for file in (Path("log.sarif"), *Path("report").iterdir())]
    for text in (told.out, told.err, *files):
        assert "nobody" not in text
        assert not [line for line in text.splitlines() if line.lstrip().startswith("::error file=/etc")]
    assert main(["view", "log.sarif", "--no-browser", "-o", "page.html"]) == 0
    assert "nobody" not in Path("page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("table", ["[" * 100_000, "{}", "[[[], 1, 2, 3]]", "[[1]]", '[["a.py", "x", null, null]]', "9"])
def test_a_table_of_places_that_is_none(table: str, strangers: Path, capsys: Output) -> None:
    model = onnx.load(strangers)
    for entry in model.metadata_props:
        if entry.key == "fxport.places":
            entry.value = table
    onnx.save(model, strangers)
    for command in (["validate", str(strangers), "--against", "net.py:wide"], ["place", str(strangers)]):
        assert main(command) == 2
        assert "'fxport.places' is no provenance table" in capsys.readouterr().err


GREEDY = """graph (float[2, 3] x) => (float[2, 3] output) {
    size = Constant<value = int64[2] {60000, 20000}>()
    many = ConstantOfShape(size)
    more = Exp(many)
    all = ReduceSum<keepdims = 0>(more)
    output = Add(x, all)
}"""
ENDLESS = """graph (float[2, 3] x) => (float[2, 3] output) {
    n = Constant<value = int64 {9223372036854775807}>()
    c = Constant<value = bool {1}>()
    output = Loop(n, c, x) <body = b (int64 i, bool ci, float[2, 3] v) => (bool co, float[2, 3] w) {
        co = Identity(ci)  w = Relu(v)
    }>
}"""


def short(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let models take so many seconds only."""
    for module in ("ort_runner.child", "exporter.validation.against_eager"):
        monkeypatch.setattr(f"fxport.{module}.SLOWEST", 0, raising=False)
    monkeypatch.setattr("fxport.ort_runner.child.LEAST_TIME_LIMIT", seconds)


@pytest.mark.parametrize("command", ["validate", "bench"])
def test_a_model_that_never_ends_is_stopped(
    command: str, sound: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.chdir(folder / "inside")
    short(monkeypatch, 4.0)
    written(ENDLESS)(Path("bad.onnx"), sound)
    assert main([command, "bad.onnx", "--against", "net.py:wide"]) == 1
    assert "did not answer within" in capsys.readouterr().out


def test_a_model_of_endless_calls_is_stopped_before_it_is_placed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    calls_of_calls(folder)
    short(monkeypatch, 4.0)
    assert main(["place", str(folder / "model.onnx")]) == 1
    assert "did not answer within 4" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform != "linux", reason="a process has a bound of memory on Linux only")
@pytest.mark.parametrize("command", ["validate", "bench"])
def test_a_model_takes_no_more_memory_than_it_may(
    command: str, sound: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """One of 4.8 GB for a tensor, which a larger limit would allow on many machines."""
    monkeypatch.chdir(folder / "inside")
    monkeypatch.setattr("fxport.ort_runner.child.MEMORY_OF_PARENT", 0)
    written(GREEDY)(Path("bad.onnx"), sound)
    assert main([command, "bad.onnx", "--against", "net.py:wide"]) == 1
    told = capsys.readouterr().out
    assert "its process may take 2 GB: " in " ".join(told.split())
