"""Files of `torch.export.save` from strangers: nothing in them is run."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fxport import export
from fxport.exporter.cli import main
from fxport.exporter.sources.pt2 import code_in, is_size

Output = pytest.CaptureFixture[str]
Change = Callable[[str, bytes], bytes]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.linear(torch.cat([x, y])).view(-1, 4) + x.shape[0] // 2


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return open, ("ran", "w")


def saved(path: Path) -> Path:
    sizes = ({0: 2 * torch.export.Dim("b", min=2, max=100)}, {0: 2 * torch.export.Dim("c", min=1, max=50)})
    args = (torch.ones(4, 2), torch.ones(6, 2))
    torch.export.save(torch.export.export(Net().eval(), args, dynamic_shapes=sizes), path)
    return path


def changed(path: Path, change: Change, more: dict[str, bytes] | None = None) -> Path:
    """The archive with other contents of its records, as a stranger would write it."""
    with zipfile.ZipFile(path) as archive:
        records = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in records.items():
            archive.writestr(name, change(name, content))
        for name, content in (more or {}).items():
            archive.writestr(f"{path.stem}/{name}", content)
    return path


def evil_pickle(name: str, content: bytes) -> bytes:
    if "sample_inputs" not in name:
        return content
    buffer = io.BytesIO()
    torch.save(((Evil(),), {}), buffer)
    return buffer.getvalue()


class Marking:
    """Sample inputs that leave a file behind when they are unpickled, and are tensors all the same."""

    def __reduce__(self) -> tuple[object, ...]:
        text = "(open('ran', 'w').close(), __import__('torch').ones(4, 2))[1]"
        return eval, (text,)


def marking_pickle(name: str, content: bytes) -> bytes:
    if "sample_inputs" not in name:
        return content
    buffer = io.BytesIO()
    torch.save(((Marking(), torch.ones(6, 2)), {}), buffer)
    return buffer.getvalue()


def onnx_of(folder: Path) -> bytes:
    """An ONNX model with the ports of `Net`, made from the module itself."""
    program = export(Net().eval(), (torch.ones(4, 2), torch.ones(6, 2)))
    return program.save(folder / "made.onnx")[0].read_bytes()


COMMANDS = [
    ["export", "net.pt2", "--no-validate"],
    ["validate", "net.onnx", "--against", "net.pt2", "--no-bisect"],
    ["bisect", "net.onnx", "--against", "net.pt2"],
]


def evil_size(name: str, content: bytes) -> bytes:
    text = "Symbol(open('ran', 'w').name, positive=True, integer=True)"
    return content.replace(b"Symbol('s", json.dumps(text)[1:-1].encode() + b"+Symbol('s")


def evil_target(name: str, content: bytes) -> bytes:
    return content.replace(b"torch.ops.aten.cat.default", b"os.system")


def evil_guard(name: str, content: bytes) -> bytes:
    if not name.endswith(".json") or b"guards_code" not in content:
        return content
    return json.dumps(json.loads(content) | {"guards_code": ["open('ran', 'w')"]}).encode()


def same(name: str, content: bytes) -> bytes:
    return content


def test_a_sound_file_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.chdir(tmp_path)
    assert code_in(saved(tmp_path / "net.pt2")) is None
    assert main(["export", "net.pt2"]) == 0
    assert "equal to PyTorch on cpu" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "more", "words"),
    [
        (evil_pickle, {}, "the pickle 'data/sample_inputs/model.pt' holds more than tensors"),
        (evil_size, {}, "is no expression of sizes"),
        (evil_target, {}, "'os.system' in 'models/model.json' is no operator"),
        (evil_guard, {}, "is no expression of sizes"),
        (same, {"data/aotinductor/net/net.wrapper.so": b"\x7fELF"}, "'data/aotinductor/net/net.wrapper.so' is no data"),
    ],
)
def test_code_in_a_file_is_not_run(
    change: Change,
    more: dict[str, bytes],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Output,
) -> None:
    monkeypatch.chdir(tmp_path)
    changed(saved(tmp_path / "net.pt2"), change, more)
    assert main(["export", "net.pt2"]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert "if you trust whoever made it, give --trust" in told
    assert not Path("ran").exists()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_code_is_run_with_trust_and_with_nothing_less(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.chdir(tmp_path)
    changed(saved(tmp_path / "net.pt2"), marking_pickle)
    Path("net.onnx").write_bytes(onnx_of(tmp_path))
    assert main(command) == 2
    assert "give --trust" in capsys.readouterr().err
    assert not Path("ran").exists()
    main([*command, "--trust"])
    assert Path("ran").exists()


def test_a_manifest_says_what_it_trusts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.chdir(tmp_path)
    changed(saved(tmp_path / "net.pt2"), marking_pickle)
    table = '[[model]]\nname = "net"\nsource = "net.pt2"\n'
    Path("fxport.toml").write_text(table)
    assert main(["check"]) == 1
    told = capsys.readouterr()
    assert "in a manifest: trust = true" in told.out + told.err
    assert not Path("ran").exists()
    Path("fxport.toml").write_text(f"{table}trust = true\n")
    assert main(["check"]) == 0
    assert Path("ran").exists()


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('x')",
        "Symbol.__class__",
        "Symbol('x').func",
        "open('ran')",
        "(lambda: 1)()",
        "[x for x in y]",
        "sympify('x')",
        "S('x')",
        "L['x'].numpy().tofile('x')",
        "L[open('x')].size()[0]",
        "x if y else z",
        "f'{x}'",
        "(x := 1)",
        "((" * 200,
        "9**9**9**9",
        "s0**s1",
        "s0**-s1",
        "1 << 10**9",
        "Pow(9, Pow(9, Integer(9)))",
        "LShift(1, 99999)",
        "s0**64**64",
        "((s0**64)**64)**64",
        "9" * 30,
        "",
    ],
)
def test_what_is_no_size(text: str) -> None:
    assert not is_size(text)


@pytest.mark.parametrize(
    "text",
    [
        "Add(Symbol('s17', positive=True, integer=True), Mul(Integer(2), Symbol('s65', integer=True)))",
        "2*s65",
        "s0**2 + s1**2 + Pow(s2, Integer(-2))",
        "s0 << 3",
        "FloorDiv(s0, 2)",
        "L['x'].size()[0] >= 2",
        "Max(1, s0) <= s1 and s0 % 2 == 0",
    ],
)
def test_what_is_a_size(text: str) -> None:
    assert is_size(text)
