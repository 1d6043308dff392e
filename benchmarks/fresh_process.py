"""Figures of one thing at a time: a script that runs itself anew for each, and the memory of such a process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def in_a_fresh_process(script: str, *arguments: str) -> Any:
    """Runs a script as a child and returns the JSON of its last line. Raises SystemExit where it fails."""
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def start_of_peak() -> int:
    """Resident bytes now. Linux forgets its high-water mark when 5 is written to clear_refs (proc(5))."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> int:
    """The most bytes that were resident since `start_of_peak`."""
    return _status("VmHWM")


def _status(field: str) -> int:
    """A field of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"/proc/self/status has no {field}: memory is measured on Linux only")
