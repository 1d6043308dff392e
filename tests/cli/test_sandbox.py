"""`--sandbox`: code of SOURCE reaches no network and writes nothing but what was asked for."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fxport.exporter.checks.sandbox import PROGRAM, WALLS
from fxport.exporter.cli import main

SOURCE = """
import os
import socket
from pathlib import Path

import torch

HERE = Path(__file__).parent


def tried(name, work):
    try:
        work()
    except OSError as error:
        print(f"{name}: {error.strerror}")
    else:
        print(f"{name}: DONE")


def net():
    tried("beside", lambda: (HERE / "planted.py").write_text(""))
    tried("itself", lambda: Path(__file__).write_text(""))
    tried("home", lambda: Path("~/planted").expanduser().write_text(""))
    tried("temporary", lambda: Path("/tmp/planted").write_text(""))
    tried("network", lambda: socket.create_connection(("192.0.2.1", 80), timeout=3))
    tried("daemon", lambda: socket.socket(socket.AF_UNIX).connect("/run/docker.sock"))
    for draft in (HERE / "out").glob(".fxport-*"):
        try:
            (draft / "conftest.py").write_text("")
            os.symlink("/etc/passwd", draft / "net.onnx.0123456789abcdef.data")
            os.symlink("/etc/passwd", draft / "log.sarif")
        except OSError:
            pass
    return torch.nn.Linear(2, 3).eval(), (torch.ones(1, 2),)
"""


def works() -> bool:
    program = shutil.which(PROGRAM)
    return (
        program is not None
        and not subprocess.run([program, *WALLS, "true"], capture_output=True, check=False).returncode
    )


needs = pytest.mark.skipif(not works(), reason="bubblewrap is not installed, or may not make namespaces here")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(SOURCE)
    (tmp_path / "out").mkdir()
    return tmp_path


@needs
def test_code_writes_only_what_was_asked_for(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = ["--sandbox", "--external-data", "yes", "--report", "out/report", "-o", "out/net.onnx"]
    assert main(["export", "net.py:net", *options]) == 0
    told = capfd.readouterr()
    said = dict(line.split(": ") for line in told.err.splitlines() if line.count(": ") == 1)
    for what in ("beside", "itself", "home", "temporary"):
        assert said[what] == "Read-only file system"
    assert said["network"] == "Network is unreachable"
    assert said["daemon"] == "No such file or directory"
    names = {path.name for path in (project / "out").iterdir()}
    (data,) = [name for name in names if name.endswith(".data")]
    assert names == {"net.onnx", data, "report"}
    assert not (project / "out" / data).is_symlink()
    assert {path.name for path in project.iterdir()} == {"net.py", "out"}
    assert f"{project}/out/net.onnx" in told.out
    reports = [path.read_text(encoding="utf-8") for path in (project / "out" / "report").iterdir()]
    assert reports
    assert not [text for text in (told.out, *reports) if ".fxport-" in text]
    assert main(["validate", "out/net.onnx", "--against", "net.py:net", "--sandbox"]) == 0
    assert "equal to PyTorch" in capfd.readouterr().out


@needs
def test_exit_codes_are_those_of_the_command(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "net.py:other", "--sandbox", "-o", "out/net.onnx"]) == 2
    assert "has no 'other'" in capfd.readouterr().err
    assert list((project / "out").iterdir()) == []
    assert main(["export", "net.py:net", "--sandbox"]) == 2
    assert "--sandbox needs -o PATH" in capfd.readouterr().err


def test_without_bubblewrap_it_is_told(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert main(["export", "net.py:net", "--sandbox", "-o", "out/net.onnx"]) == 2
    assert "A sandbox needs bubblewrap (Linux), and there is no bwrap here" in capsys.readouterr().err
    assert list((project / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("line", "said"), [(["check"], "is for bench, bisect"), (["export", "--fix"], "--fix changes SOURCE")]
)
def test_what_cannot_be_in_a_sandbox(line: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*line, "--sandbox"]) == 2
    assert said in capsys.readouterr().err
