"""Runs a function in several processes with a process group, and collects what each of them gave."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START = """
import importlib, os, pickle, sys, traceback
import torch, torch.distributed as dist
folder, rank, size, where, name = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
torch.set_num_threads(1)
with open(f"{folder}/args", "rb") as file:
    args = pickle.load(file)
dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=size)
result = getattr(importlib.import_module(where), name)(*args)
with open(f"{folder}/{rank}", "wb") as file:
    pickle.dump(result, file)
if dist.is_initialized():
    dist.destroy_process_group()
"""


@dataclass(frozen=True)
class Outcome:
    """What one rank gave: its exit code, what its function returned (None if it did not), its output."""

    code: int
    result: Any
    output: str


def spawn(where: str, name: str, size: int, *args: Any, limit: float = 300.0) -> Sequence[Outcome]:
    """Runs `where.name(*args)` in `size` processes with a gloo group on this machine.

    A process that still runs after `limit` seconds is ended; its code is then negative.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "args").write_bytes(pickle.dumps(args))
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        outputs = [open(f"{folder}/{rank}.txt", "w+") for rank in range(size)]  # noqa: SIM115  # closed below
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", START, folder, str(rank), str(size), where, name],
                stdout=outputs[rank],
                stderr=subprocess.STDOUT,
                env=environment,
            )
            for rank in range(size)
        ]
        end = time.monotonic() + limit
        try:
            for process in processes:
                try:
                    process.wait(max(0.1, end - time.monotonic()))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        finally:
            for process in processes:
                process.kill()
        outcomes = []
        for rank, process in enumerate(processes):
            outputs[rank].close()
            path = Path(folder, str(rank))
            result = pickle.loads(path.read_bytes()) if path.exists() else None
            outcomes.append(Outcome(process.returncode, result, Path(folder, f"{rank}.txt").read_text()))
        return outcomes


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
