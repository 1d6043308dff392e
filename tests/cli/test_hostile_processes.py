"""Processes of a check that is killed: none goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fxport import __main__ as program
from fxport.exporter import cli
from fxport.exporter.checks.items import Item, Task, Terms
from fxport.exporter.checks.pool import Pool, Worker
from fxport.exporter.checks.turns import Turns
from fxport.exporter.sources.usage import UsageError
from fxport.ort_runner.child import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are read from /proc")
ENDLESS = """
import os, subprocess, sys
from pathlib import Path

def net():
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    Path("pids").write_text(f"{os.getpid()} {os.getppid()} {other.pid}")
    while True:
        pass
"""
MANIFEST = """
[[model]]
name = "net"
source = "net.py:net"
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_killed_check_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(ENDLESS)
    (tmp_path / "fxport.toml").write_text(MANIFEST)
    pids, until = tmp_path / "pids", time.monotonic() + 120
    with subprocess.Popen([sys.executable, "-m", "fxport", "check"], cwd=tmp_path) as check:
        while not (pids.exists() and pids.read_text().count(" ") == 2):
            assert check.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)
        check.kill()
    started = [int(pid) for pid in pids.read_text().split()]
    until = time.monotonic() + 120
    while any(map(is_running, started)) and time.monotonic() < until:
        time.sleep(0.1)
    left = [pid for pid in started if is_running(pid)]
    for pid in left:
        os.kill(pid, 9)
    assert left == []


TASK = Task(Item("net", "net", "net.py:net", 20, "cpu"), Terms())
INTERRUPTED_CHILD = """
import sys
from fxport.exporter.checks.supervised import supervised

def work():
    raise KeyboardInterrupt

sys.exit(supervised(["export"], work, lambda *_: 9))
"""


def test_ctrl_c_before_the_work_has_begun_is_no_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_CHILD], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def test_ctrl_c_while_the_command_line_begins_or_ends(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", interrupted)
    before = signal.getsignal(signal.SIGINT)
    try:
        assert program.main() == 130
        assert signal.getsignal(signal.SIGINT) is before
        with pytest.raises(SystemExit) as end:
            program.program()
        assert end.value.code == 130
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # for the end of the interpreter
    finally:
        signal.signal(signal.SIGINT, before)
    assert capfd.readouterr().err == "fxport: interrupted\n" * 2


def test_a_worker_that_still_starts_is_ended_at_once(tmp_path: Path) -> None:
    """It hears nothing while it imports PyTorch: Ctrl-C took ten seconds, and a second one left it running."""
    command = ("sh", "-c", 'echo $$ > "$0"; exec sleep 300', str(tmp_path / "pid"))
    pool = Pool(tmp_path, lambda task: tmp_path / "m.onnx", command=command)
    worker = Worker(pool)
    thread = threading.Thread(target=worker.serve, args=(Turns([TASK]),), daemon=True)
    thread.start()
    until = time.monotonic() + 120
    while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip()):
        assert time.monotonic() < until
        time.sleep(0.05)
    start = time.monotonic()
    worker.end()
    thread.join(60)
    assert time.monotonic() - start < PATIENCE
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_a_worker_that_the_system_kills_at_its_start_is_no_fault_of_ours(tmp_path: Path) -> None:
    killed = (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    pool = Pool(tmp_path, lambda task: tmp_path / "m.onnx", command=killed)
    with pytest.raises(UsageError, match="could not start: its process was killed by SIGKILL"):
        list(pool.run([TASK], 1))
