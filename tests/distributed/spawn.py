"""Runs a function in several processes with a process group, and collects what each of them gave."""

from __future__ import annotations

import importlib
import os
import pickle
import socket
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist

from tests.forks import forks


@dataclass(frozen=True)
class Outcome:
    """What one rank gave: its exit code, what its function returned (None if it did not), its output."""

    code: int
    result: Any
    output: str


def spawn(where: str, name: str, size: int, *args: Any, limit: float = 300.0) -> Sequence[Outcome]:
    """Runs `where.name(*args)` in `size` processes with a gloo group on this machine.

    They are forked from a process that has imported what each of them needs, and has done nothing else: the imports
    take longer than most of these functions. So the ranks have one seed of hashes; tests/distributed/test_torchrun.py
    and tests/cli/test_check_ranks.py start each rank by itself.

    A process that still runs after `limit` seconds is ended; its code is then negative.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "args").write_bytes(pickle.dumps(args))
        processes = [
            forks().Process(target=run_rank, args=(folder, rank, size, where, name, {**os.environ}))
            for rank in range(size)
        ]
        end = time.monotonic() + limit
        try:
            for process in processes:
                process.start()
            for process in processes:
                process.join(max(0.1, end - time.monotonic()))
        finally:
            for process in processes:
                process.kill()
                process.join()
        outcomes = []
        for rank, process in enumerate(processes):
            path, output = Path(folder, str(rank)), Path(folder, f"{rank}.txt")
            result = pickle.loads(path.read_bytes()) if path.exists() else None
            code = -1 if process.exitcode is None else process.exitcode
            outcomes.append(Outcome(code, result, output.read_text() if output.exists() else ""))
        return outcomes


def run_rank(folder: str, rank: int, size: int, where: str, name: str, environment: dict[str, str]) -> None:
    """One rank, in its process: its output is in a file, and so is what its function returned."""
    output = os.open(f"{folder}/{rank}.txt", os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.environ.update(environment)
    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=size)
    result = getattr(importlib.import_module(where), name)(*pickle.loads(Path(folder, "args").read_bytes()))
    Path(folder, str(rank)).write_bytes(pickle.dumps(result))
    if dist.is_initialized():
        dist.destroy_process_group()


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
