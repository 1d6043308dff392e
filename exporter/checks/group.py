"""Checks of models that several ranks hold together: a process for each rank, with what torchrun would tell it."""

from __future__ import annotations

import socket
import sys
from dataclasses import dataclass, replace

from fxport.exporter.checks.items import Task

LOOPBACK = "127.0.0.1"

FORKS = sys.platform == "linux"
"""True where a worker forks processes for items; elsewhere it runs them itself."""


@dataclass(frozen=True, slots=True)
class Member:
    """One rank of a group, whose store listens at `address` and `port`. `local` is its number on its machine."""

    rank: int
    size: int
    address: str
    port: int
    local: int

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which torch.distributed finds the group."""
        return {
            "RANK": str(self.rank),
            "LOCAL_RANK": str(self.local),
            "WORLD_SIZE": str(self.size),
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.port),
        }


def members_of(task: Task, address: str, port: int, *, apart: bool) -> list[Task]:
    """The task of each rank, in their order. `apart` says that each is on a machine, or with a device, of its own."""
    size = task.item.ranks
    members = (Member(rank, size, address, port, 0 if apart else rank) for rank in range(size))
    return [replace(task, member=member) for member in members]


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as listening:
        listening.bind(("", 0))
        return listening.getsockname()[1]
