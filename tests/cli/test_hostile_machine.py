"""A machine that runs out of something: a finding that says of what, exit code 2, and never "please report it"."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from fxport.diagnostics import Log, rules
from fxport.diagnostics.exhaustion import exhausted, unusable
from fxport.diagnostics.paths import write_whole
from fxport.diagnostics.report import Report
from fxport.exporter import cli
from fxport.exporter.cli import edge, main
from fxport.exporter.sources.usage import unwritable

Output = pytest.CaptureFixture[str]
TORCH = (
    "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate"
)
SHORT = [
    (MemoryError(), "memory"),
    (MemoryError("Unable to allocate 8.00 TiB for an array"), "memory"),
    (RuntimeError(f"{TORCH} 4398046511104 bytes. Error code 12 (Cannot allocate memory)"), "memory"),
    (RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has"), "memory of the GPU"),
    (RuntimeError("can't start new thread"), "threads or processes"),
    (ImportError("libtorch_cpu.so: failed to map segment from shared object"), "memory"),
    (OSError(errno.ENOSPC, "No space left on device"), "space on the disk"),
    (OSError(errno.EDQUOT, "Disk quota exceeded"), "disk quota"),
    (OSError(errno.EMFILE, "Too many open files"), "open files"),
    (OSError(errno.EFBIG, "File too large"), "size for one file"),
]


@pytest.mark.parametrize(("error", "resource"), SHORT, ids=str)
def test_what_is_missing_is_told(error: Exception, resource: str, capsys: Output) -> None:
    def work(log: Log) -> str:
        try:
            raise error
        except type(error) as cause:
            raise RuntimeError("in the middle of something") from cause

    assert edge.run(work, Report("m.py:net")) == 2
    told = capsys.readouterr()
    assert f"error[{rules.OUT_OF_RESOURCES.id}]: There is not enough '{resource}" in told.out
    assert "please report" not in told.out + told.err
    assert "Traceback" not in told.err


def test_what_was_asked_for_is_told() -> None:
    assert exhausted(SHORT[2][0]) == ("memory", "4398046511104 bytes were asked for at once")
    assert exhausted(SHORT[3][0]) == ("memory of the GPU", "20.00 GiB were asked for at once")


@pytest.mark.parametrize("error", [ValueError("can't allocate memory"), KeyError("x"), OSError(errno.ENOENT, "no")])
def test_other_errors_are_others(error: Exception) -> None:
    assert exhausted(error) is None


def test_a_device_that_cannot_be_read_is_no_fault_of_ours() -> None:
    assert "Input/output error" in str(unusable(OSError(errno.EIO, "Input/output error")))


def test_outside_of_the_edge(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    def fail(args: object) -> None:
        raise MemoryError

    monkeypatch.setattr(cli, "application", fail)
    assert main(["export"]) == 2
    assert capsys.readouterr().err == "fxport: there is not enough memory: MemoryError.\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_report_on_a_full_disk_names_its_file(tmp_path: Path, capsys: Output) -> None:
    with pytest.raises(OSError, match="No space left") as raised:
        write_whole("/dev/full", "x" * 100_000)
    assert raised.value.filename == "/dev/full"
    (tmp_path / "m.py").write_text("import torch\n\ndef net():\n    return torch.nn.ReLU(), (torch.ones(2),)\n")
    source = f"{tmp_path / 'm.py'}:net"
    assert main(["export", source, "-o", str(tmp_path / "m.onnx"), "--sarif", "/dev/full"]) == 2
    assert "'/dev/full' cannot be written: No space left on device" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of a file's size is that of Linux")
def test_a_model_that_is_larger_than_a_file_may_be(tmp_path: Path) -> None:
    import resource
    import signal

    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    write_whole(tmp_path / "a.txt", "old")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            write_whole(tmp_path / "a.txt", "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert raised.value.filename == str(tmp_path / "a.txt")
    assert os.listdir(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "'a.onnx' cannot be written: No space left on device; name another place."),
        (errno.EROFS, "'a.onnx' cannot be written: Read-only file system; name another place."),
        (errno.EFBIG, "'a.onnx' cannot be written: File too large; allow larger files (ulimit -f)."),
    ],
)
def test_what_cannot_be_written_is_told_once(number: int, said: str) -> None:
    assert str(unwritable("a.onnx", OSError(number, os.strerror(number), "a.onnx"))) == said


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("elsewhere/w.bin", "'{folder}/elsewhere/w.bin' cannot be used"),
        ("out/m.onnx", "'{folder}/out' cannot be written"),
    ],
)
def test_a_file_that_a_package_reads_is_not_told_as_its_output(
    named: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    from fxport.exporter.language_models import packaging

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / named))

    monkeypatch.setattr(packaging, "package", denied)
    (tmp_path / "m.py").write_text("import torch\n\ndef net():\n    return torch.nn.ReLU(), (torch.ones(2),)\n")
    assert main(["package", f"{tmp_path / 'm.py'}:net", "-o", str(tmp_path / "out")]) == 2
    assert said.format(folder=tmp_path) in capsys.readouterr().err


NEEDS_MEMORY = f"""
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        if not torch.compiler.is_exporting():
            raise RuntimeError("{TORCH} 9000000 bytes. Error code 12 (Cannot allocate memory)")
        return x + 1

def net():
    return Net(), (torch.ones(2),)
"""
"""A model for which there is no memory in eager PyTorch."""


def test_a_model_that_finds_no_memory_is_not_blamed(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "m.py").write_text(NEEDS_MEMORY)
    assert main(["export", f"{tmp_path / 'm.py'}:net", "-o", str(tmp_path / "m.onnx")]) == 2
    assert rules.OUT_OF_RESOURCES.id in capsys.readouterr().out


def test_a_second_step_that_finds_no_memory_is_not_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    from fxport.exporter.validation import reference

    def without_memory(*_: object) -> Exception:
        return SHORT[2][0]

    monkeypatch.setattr(reference, "tried", without_memory)
    (tmp_path / "s.py").write_text(
        "import torch\n\ndef step():\n    model = torch.nn.Linear(2, 1)\n"
        "    return model, torch.optim.SGD(model.parameters()), lambda model, x: model(x).sum(), (torch.ones(3, 2),)\n"
    )
    assert main(["train-step", f"{tmp_path / 's.py'}:step", "-o", str(tmp_path / "s.onnx")]) == 2
    assert rules.OUT_OF_RESOURCES.id in capsys.readouterr().out


def test_a_file_of_a_model_finds_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    import onnx_ir as ir
    from google.protobuf.message import EncodeError

    def without_memory(*_: object) -> None:
        raise EncodeError("Failed to serialize proto")

    monkeypatch.setattr(ir, "save", without_memory)
    (tmp_path / "m.py").write_text("import torch\n\ndef net():\n    return torch.nn.ReLU(), (torch.ones(2),)\n")
    assert main(["export", f"{tmp_path / 'm.py'}:net", "-o", str(tmp_path / "m.onnx")]) == 2
    assert rules.OUT_OF_RESOURCES.id in capsys.readouterr().out
    assert not (tmp_path / "m.onnx").exists()
