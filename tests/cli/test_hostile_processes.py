"""Processes of a check that is killed: none goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
