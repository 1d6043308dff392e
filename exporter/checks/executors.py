"""Choice of where checks run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Executor(StrEnum):
    """Executor of the checks: this machine or a Ray cluster."""

    LOCAL = "local"
    RAY = "ray"


@dataclass(frozen=True, slots=True)
class Workers:
    """Choice of where checks run, and of how many at the same time.

    Attributes:
        executor: This machine or a cluster.
        jobs: Checks at the same time; None for one for two cores, or as many as the cluster takes.
        address: Address of the cluster; None for one of this machine.
    """

    executor: Executor = Executor.LOCAL
    jobs: int | None = None
    address: str | None = None
