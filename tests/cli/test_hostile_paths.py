"""Paths that are no files, folders that cannot be used, streams that are closed: a sentence, and exit code 2."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from fxport.diagnostics.exhaustion import unusable
from fxport.diagnostics.own import own_folders
from fxport.diagnostics.paths import write_whole, written_whole
from fxport.exporter.cli import main
from fxport.ort_runner.child import _unnamed_file

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
Output = pytest.CaptureFixture[str]
SOURCE = "import torch\n\ndef net():\n    return torch.nn.ReLU(), (torch.ones(2),)\n"
MODEL = '[[model]]\nname = "net"\nsource = "net.py:net"\n'
PIPE, LOOP = "is no ordinary file, but a device or a pipe", "is a symbolic link that leads to itself"
EXPORT = ("export", "net.py:net", "--no-validate")

COMMANDS = [
    (("validate", "pipe.onnx", "--against", "net.py:net"), PIPE),
    (("place", "pipe.onnx"), PIPE),
    (("diff", "pipe.onnx", "pipe.onnx"), PIPE),
    (("view", "pipe.sarif"), PIPE),
    (("view", "/dev/zero"), PIPE),
    (("export", "pipe.py:net"), PIPE),
    (("export", "pipe.pt2", "-o", "a.onnx"), PIPE),
    ((*EXPORT, "--inputs", "pipe.npz"), PIPE),
    ((*EXPORT, "--baseline", "pipe.sarif"), PIPE),
    (("check",), PIPE),
    ((*EXPORT, "-o", "loop.onnx"), LOOP),
    ((*EXPORT, "--sarif", "loop/a.sarif"), LOOP),
    (("export", "loop:net"), LOOP),
    ((*EXPORT, "--report", "loop"), "is a link to what does not exist"),
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(SOURCE)
    (tmp_path / "fxport.toml").write_text(MODEL)
    for name in ("pipe.onnx", "pipe.sarif", "pipe.py", "pipe.pt2", "pipe.npz", "fxport.lock"):
        os.mkfifo(tmp_path / name)
    for name in ("loop", "loop.onnx"):
        (tmp_path / name).symlink_to(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("command", "said"), COMMANDS, ids=[" ".join(command) for command, _ in COMMANDS])
def test_pipes_devices_and_links_are_refused(command: tuple[str, ...], said: str, here: Path, capsys: Output) -> None:
    """None is opened: that would wait for who writes to a pipe."""
    before = sorted(here.iterdir())
    assert main(list(command)) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert "Traceback" not in told.err
    assert sorted(each for each in here.iterdir() if each.name != "__pycache__") == before


@pytest.mark.parametrize("command", ["check", "export", "rules"])
def test_the_working_folder_is_gone(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main([command, *([str(tmp_path / "net.py:net")] if command == "export" else [])]) == 2
    assert capsys.readouterr().err == "fxport: the working folder is gone; change to one that exists.\n"


ERRORS = [
    (PermissionError(errno.EACCES, "Permission denied", "a/b"), "'a/b' cannot be used: Permission denied; name"),
    (OSError(errno.ENAMETOOLONG, "File name too long", b"\xff"), "cannot be used: File name too long"),
    (FileNotFoundError(errno.ENOENT, f"{tempfile.__name__}: No usable temporary directory found"), "set TMPDIR to one"),
    (RuntimeError("Symlink loop from 'a'"), "'a' is a symbolic link that leads to itself"),
]


@pytest.mark.parametrize(("error", "said"), ERRORS, ids=lambda value: str(value)[:30])
def test_what_cannot_be_used_is_told(error: Exception, said: str) -> None:
    assert said in str(unusable(error))


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file", str(own_folders()[-1] / "rules.py")),
        RuntimeError("no loop"),
        OSError("no file"),
        KeyError("a"),
    ],
    ids=str,
)
def test_a_fault_of_ours_is_none_of_these(error: Exception) -> None:
    assert unusable(error) is None


def test_errors_of_libraries_in_rust_are_those_of_the_system(tmp_path: Path) -> None:
    """As safetensors tells of a full disk."""
    target = tmp_path / "a.safetensors"
    write_whole(target, "old")
    text = "Error while serializing: I/O error: No space left on device (os error 28)"
    with pytest.raises(OSError, match="No space left") as raised, written_whole(target):
        raise ValueError(text)
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(target))
    assert [each.read_text() for each in tmp_path.iterdir()] == ["old"]


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no files in memory")
def test_a_model_is_opened_without_a_place_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "TemporaryFile", fail)
    with _unnamed_file() as file:
        file.write(b"a")
        file.seek(0)
        assert file.read() == b"a"


def started(
    *args: str, preexec: Callable[[], None] | None = None, **options: object
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fxport", *args]
    return subprocess.run(command, text=True, check=False, preexec_fn=preexec, **options)  # type: ignore[call-overload]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("args", [("rules",), ("--version",)], ids=" ".join)
def test_standard_output_is_full(args: tuple[str, ...]) -> None:
    """Both more than Python holds back, and less."""
    with open("/dev/full", "w") as full:
        done = started(*args, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert "standard output cannot be written: [Errno 28]" in done.stderr


CHATTY = """import torch

class Chatty(torch.nn.Module):
    def forward(self, x):
        print("inside", flush=True)
        return x + 1

def net():
    return Chatty(), (torch.ones(2),)
"""


def broken_pipe() -> int:
    """A pipe that nobody reads."""
    reads, writes = os.pipe()
    os.close(reads)
    return writes


@pytest.mark.parametrize(
    ("args", "broken"),
    [
        (("rules",), ("stdout",)),
        (("export", "net.py:net", "--no-validate"), ("stdout",)),
        (("export", "net.py:net", "--no-validate"), ("stdout", "stderr")),
        (("check", "--update", "--report", "reports"), ("stdout", "stderr")),
    ],
    ids=str,
)
def test_nobody_reads_what_is_printed(args: tuple[str, ...], broken: tuple[str, ...], tmp_path: Path) -> None:
    """The command does its work to the end, and says by its exit code how that went."""
    (tmp_path / "net.py").write_text(CHATTY)
    (tmp_path / "fxport.toml").write_text(MODEL)
    ends = {each: broken_pipe() for each in broken}
    done = started(*args, cwd=tmp_path, stdout=ends["stdout"], stderr=ends.get("stderr", subprocess.PIPE))
    for end in ends.values():
        os.close(end)
    assert done.returncode == 0
    assert "Traceback" not in (done.stderr or "")
    if args[0] == "export":
        assert (tmp_path / "net.onnx").exists()
    if args[0] == "check":
        assert (tmp_path / "fxport.lock").exists()
        assert (tmp_path / "reports" / "report.html").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_standard_error_is_full(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(CHATTY)
    with open("/dev/full", "w") as full:
        done = started(*EXPORT, stdout=subprocess.PIPE, stderr=full, cwd=tmp_path)
    assert (done.returncode, "not validated" in done.stdout) == (0, True)


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_what_an_encoding_lacks_is_spelled_out(encoding: str, tmp_path: Path) -> None:
    """The arrow of nodes, and a file name that is no UTF-8."""
    (tmp_path / "log.sarif").write_text(json.dumps({"version": "2.1.0", "runs": []}))
    name = os.fsdecode(b"a\xe9b.html")
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    command = ("view", "log.sarif", "--no-browser", "-o", name)
    done = started(*command, cwd=tmp_path, env=environment, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\\udce9b.html\n", "")
    assert (tmp_path / name).exists()
    done = started("explain", "FXP5005", env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are UTF-8 elsewhere")
def test_a_model_whose_name_is_no_utf8_is_validated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / os.fsdecode(b"\xe9")
    folder.mkdir()
    (folder / "net.py").write_text(SOURCE)
    monkeypatch.chdir(folder)
    name = os.fsdecode(b"a\xe9b.onnx")
    assert main(["export", "net.py:net", "-o", name, "--external-data", "yes"]) == 0
    assert main(["diff", name, name]) == 0
    assert main(["place", name]) == 0


@pytest.mark.parametrize("stream", [0, 1, 2])
def test_a_stream_is_closed(stream: int) -> None:
    done = started("export", "nothing.pt2", preexec=lambda: os.close(stream), capture_output=True)
    assert done.returncode == 2
    assert ("There is no file" in done.stderr) == (stream != 2)


def test_both_streams_are_closed() -> None:
    """A file of ours must not get the number of one, and the null device stays open as long as the process."""
    done = started("rules", preexec=lambda: (os.close(1), os.close(2), None)[-1])
    assert done.returncode == 0
