"""Inputs that are no ordinary files, links out of the project, and texts that mean harm where they are shown."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.hostile import models, texts
from tests.hostile.cases import Case, Make, sparse, writes

Files = dict[str, str | bytes]
NOT_CUT = frozenset((0, 1, 2))


def pipe(name: str) -> Make:
    return lambda project: os.mkfifo(project / name)


def listening(name: str) -> Make:
    """A socket, as a daemon makes it."""

    def make(project: Path) -> None:
        here = os.getcwd()
        os.chdir(project)  # a long path is none of a socket
        try:
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(name)
        finally:
            os.chdir(here)

    return make


def link(name: str, target: str) -> Make:
    return lambda project: (project / name).symlink_to(target)


def all_of(*makes: Make) -> Make:
    def make(project: Path) -> None:
        for each in makes:
            each(project)

    return make


EXPORT = ("export", "net.py:net", "--no-validate", "-o", "made.onnx")
CHECKED = writes("fxport.toml", texts.MODEL)
READERS: dict[str, tuple[str, Sequence[str], Make]] = {
    "model": ("bad.onnx", ("validate", "bad.onnx", "--against", "net.py:net"), writes("a", "")),
    "model to place": ("bad.onnx", ("place", "bad.onnx"), writes("a", "")),
    "source": ("bad.py", ("export", "bad.py:net"), writes("a", "")),
    "source of no kind": ("bad.pt", ("export", "bad.pt"), writes("a", "")),
    "pt2": ("bad.pt2", ("export", "bad.pt2", "--no-validate"), writes("a", "")),
    "weights": ("bad.pt", (*EXPORT, "--weights", "bad.pt"), writes("a", "")),
    "safetensors": ("bad.safetensors", (*EXPORT, "--weights", "bad.safetensors"), writes("a", "")),
    "inputs": ("bad.npz", (*EXPORT, "--inputs", "bad.npz"), writes("a", "")),
    "baseline": ("bad.sarif", (*EXPORT, "--baseline", "bad.sarif"), writes("a", "")),
    "log": ("bad.sarif", texts.VIEW, writes("a", "")),
    "manifest": ("fxport.toml", ("check",), writes("a", "")),
    "lock": ("fxport.lock", ("check",), CHECKED),
    "configuration": ("folder/config.json", texts.FOLDER, lambda project: (project / "folder").mkdir()),
}
"""Readers of a file: the name, the command, and the other files that it needs."""

KINDS: dict[str, Callable[[str], Make]] = {
    "a pipe": pipe,
    "a socket": listening,
    "a link to /dev/zero": lambda name: link(name, "/dev/zero"),
    "a link to /proc/self/mem": lambda name: link(name, "/proc/self/mem"),
    "a link to itself": lambda name: link(name, Path(name).name),
    "a folder": lambda name: lambda project: (project / name).mkdir(),
}


def deep_model(where: str) -> Make:
    """A model with a tensor outside of its folder at a place that is not a graph's initializer."""

    def make(project: Path) -> None:
        made = models.sound()
        tensor = onnx.TensorProto()
        tensor.CopyFrom(made.graph.initializer[0])
        holder = onnx.ModelProto()
        holder.graph.initializer.append(tensor)
        models.located("../outside/secret.data")(holder)
        outside = holder.graph.initializer[0]
        if where == "a constant":
            del made.graph.initializer[:]
            made.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=outside))
        elif where == "a branch":
            graphs = []
            for _ in range(2):
                inner = onnx.parser.parse_graph("g () => (float[2, 3] y) { y = Identity(v) }")
                outside.name = "v"
                inner.initializer.append(outside)
                graphs.append(inner)
            made.graph.node.insert(
                0, helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True)))
            )
            made.graph.node.insert(
                1, helper.make_node("If", ["c"], ["b"], then_branch=graphs[0], else_branch=graphs[1])
            )
            made.graph.node.append(helper.make_node("Add", ["b", "x"], ["z"]))
        elif where == "a function":
            domains = [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]
            node = helper.make_node("Constant", [], ["y"], value=outside)
            made.functions.append(helper.make_function("f", "g", [], ["y"], [node], domains))
            made.opset_import.append(helper.make_opsetid("f", 1))
            made.graph.node.insert(0, helper.make_node("g", [], ["b"], domain="f"))
            made.graph.node.append(helper.make_node("Add", ["b", "x"], ["z"]))
        elif where == "a sparse tensor":
            values = onnx.SparseTensorProto(dims=[2, 3])
            values.values.CopyFrom(outside)
            values.indices.CopyFrom(numpy_helper.from_array(np.arange(6), "i"))
            del made.graph.initializer[:]
            values.values.name = "w"
            made.graph.sparse_initializer.append(values)
        (project / "bad.onnx").write_bytes(made.SerializeToString())

    return make


LOCATIONS = {
    "file:///etc/passwd": "file:///etc/passwd",
    "through a file": "net.py/../../outside/secret.data",
    "of Windows": "..\\outside\\secret.data",
    "of a share": "\\\\server\\share\\secret.data",
    "/proc/self/mem": "/proc/self/mem",
    "with a slash": "net.py/",
    "twice upwards": "a/../../outside/secret.data",
}
SHOWN = {
    "a link of a terminal": "\x1b]8;;http://evil/\x1b\\y\x1b]8;;\x1b\\",
    "a carriage return": "y\r::error::forged",
    "a separator": "y\u2028::error::forged",
    "of Azure": "y\n##vso[task.setvariable variable=a]forged\n##[error]forged",
    "a clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "of 1 MB": "y" * 1_000_000,
    "half a character": "y\udcff",
}
URIS = {
    "of a share": "file://server/share/a.py",
    "of a share of Windows": "\\\\server\\share\\a.py",
    "of no scheme": "//server/share/a.py",
    "of a script": "javascript:alert(1)//a.py",
    "encoded": "%2e%2e/outside/secret.py",
    "encoded twice": "%252e%252e/outside/secret.py",
    "with a null": "a%00b.py",
    "of data": "data:text/html,<script>alert(1)</script>",
    "to a page": "https://evil/a.py",
}


def named_node(name: str) -> Callable[[onnx.ModelProto], object]:
    """A model that cannot run, in which whatever has a name has this one."""

    def change(made: onnx.ModelProto) -> None:
        text = name.encode(errors="surrogateescape").decode(errors="replace")
        made.graph.node[0].op_type = made.graph.node[0].name = made.graph.name = text
        made.producer_name = made.doc_string = text
        made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = text
        made.metadata_props.add(key=text, value=text)

    return change


def logged(**changed: object) -> Make:
    return writes("bad.sarif", texts.sarif([texts.result("a.py") | changed]))


def repository(head: str, config: str | None = None) -> Make:
    def make(project: Path) -> None:
        (project / ".git").mkdir()
        (project / ".git" / "HEAD").write_text(head)
        (project / ".git" / "config").write_text(config or '[remote "origin"]\nurl = https://host/a/b\n')

    return make


SARIF = (*EXPORT, "--sarif", "made.sarif")


def cases() -> Iterator[Case]:
    """All of them, each with the command that opens it."""
    for reader, (name, command, before) in READERS.items():
        for kind, make in KINDS.items():
            if (reader, kind) not in USUAL:
                yield Case(f"place, {reader} is {kind}", all_of(before, make(name)), command)
    for where in ("a constant", "a branch", "a function", "a sparse tensor"):
        yield Case(f"place, weights outside in {where}", deep_model(where), models.VALIDATE)
    for name, location in LOCATIONS.items():
        yield Case(f"place, weights {name}", models.model(models.located(location)), models.VALIDATE)
    far = all_of(models.model(models.located("far.data", str(1 << 62))), sparse("far.data", 1 << 40))
    yield Case("place, weights at 2^62", far, models.VALIDATE)
    end = all_of(models.model(models.located("far.data", str((1 << 40) - 24))), sparse("far.data", 1 << 40))
    yield Case("place, weights at the end of 1 TB", end, models.VALIDATE)
    for name, text in SHOWN.items():
        for form in ("text", "github"):
            command = (*models.VALIDATE, "--format", form)
            yield Case(f"place, names {name}, {form}", models.model(named_node(text)), command)
        told = logged(message={"text": text.encode(errors="replace").decode()})
        yield Case(f"place, message {name}", told, texts.VIEW, NOT_CUT)
    for name, uri in URIS.items():
        yield Case(f"place, log {name}", texts.linked(texts.sarif([texts.result(uri)])), texts.VIEW, NOT_CUT)
    base = {"originalUriBaseIds": {"ROOT": {"uri": "file:///"}}}
    place = {
        "physicalLocation": {"artifactLocation": {"uri": "etc/passwd", "uriBaseId": "ROOT"}, "region": {"startLine": 1}}
    }
    rooted = writes("bad.sarif", texts.sarif([texts.result("a.py") | {"locations": [place]}], **base))
    yield Case("place, log with another root", rooted, texts.VIEW, NOT_CUT)
    yield Case("place, log with a rule of a path", logged(ruleId="../../outside/secret"), texts.VIEW, NOT_CUT)
    for name, head in {"upwards": "ref: ../../outside/secret.py", "absolute": "ref: /etc/passwd"}.items():
        yield Case(f"place, branch {name}", repository(head), SARIF, frozenset((0,)))
    for name in ("HEAD", "config"):
        make = all_of(repository("ref: refs/heads/main"), replaced(f".git/{name}", pipe))
        yield Case(f"place, .git/{name} is a pipe", make, SARIF, frozenset((0,)))
    odd = repository("a" * 40, '[remote "origin"]\nurl = https://user:secret-password@host/\x1b[2J::error::forged\n')
    yield Case("place, address of a repository", odd, SARIF, frozenset((0,)))
    left = json.dumps(["secret.data", "net.py", "../outside/secret.data", "a.onnx.0123456789abcdef.data/../../x"])
    draft = all_of(in_folder(".fxport-a.save", {"left": left, "lock": ""}), writes("secret.data", "kept"))
    yield Case("place, draft of a stranger", draft, EXPORT, frozenset((0,)))


def replaced(name: str, kind: Callable[[str], Make]) -> Make:
    def make(project: Path) -> None:
        (project / name).unlink()
        kind(name)(project)

    return make


def in_folder(folder: str, files: Files) -> Make:
    def make(project: Path) -> None:
        (project / folder).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (project / folder / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return make


USUAL = frozenset(
    {
        ("manifest", "a link to itself"),
        ("lock", "a link to itself"),
    }
)
"""Cases that are treated as a missing file."""
