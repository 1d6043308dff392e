"""Memory of this process: what it has taken, and a bound on what it may take."""

from __future__ import annotations

import os
import sys
from pathlib import Path

STACK = 1 << 23
"""Bytes of a thread's stack, which the bound counts whether they are used or not."""


def most_memory() -> int | None:
    """The most memory that this process has held so far, in bytes; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows has no such module
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def bound(memory: int) -> None:
    """Let this process take so many bytes beside what it has at its start, where the system can bound that (Linux)."""
    if sys.platform != "linux":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = memory + _BASE + 2 * STACK * (os.cpu_count() or 1)
    # Private memory that can be written: unlike RLIMIT_AS it leaves out mapped files and mere reservations.
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def private_memory() -> int:
    """Bytes that this process holds for itself, as the bound counts them (VmData of Linux).

    0 where /proc is not mounted.
    """
    try:
        fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return int(fields[5]) * os.sysconf("SC_PAGE_SIZE")


_BASE = private_memory() if sys.platform == "linux" else 0
