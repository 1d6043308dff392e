"""`torchrun -m fxport export …`: every rank runs the same command line, rank 0 speaks, all end alike."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from fxport.exporter.cli.exit_codes import FAULT, USAGE
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.ranks import group_of_ranks

LONGEST_RUN = timedelta(hours=12)
"""Time that the other ranks wait for rank 0 to end."""

FAREWELL = timedelta(seconds=10)
"""Time that rank 0, whose process may hold the store of the group, waits for the others to read its exit code."""


def agreed(work: Callable[[], int]) -> int:
    """Runs the work and returns an exit code that is that of rank 0 on all ranks."""
    try:
        code = work()
    except UsageError:
        _exchange(USAGE)
        raise
    return _exchange(code)


def _exchange(code: int) -> int:
    """Rank 0 posts its exit code; the others take it for theirs, also where rank 0 has ended without one."""
    group = group_of_ranks()
    if group is None:
        return code
    from fxport.exporter.distributed.ranks import default_store

    store, size = default_store(), group.get_world_size()
    try:
        if group.get_rank() == 0:
            store.set("fxport/exit", str(code))
            store.wait([f"fxport/exit/{rank}" for rank in range(1, size)], FAREWELL)
            return code
        store.wait(["fxport/exit"], LONGEST_RUN)
        ended = int(store.get("fxport/exit"))
        store.set(f"fxport/exit/{group.get_rank()}", "heard")
    except RuntimeError:  # a rank has ended before
        return code if group.get_rank() == 0 else FAULT
    return ended
