"""`torchrun -m exporter.cli export …`: every rank runs the same command line, rank 0 speaks, all end alike."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from diagnostics import Log, Stop
from exporter.cli.exit_codes import FAULT, USAGE
from exporter.cli.source import Source
from exporter.cli.usage import UsageError

if TYPE_CHECKING:
    from exporter import OnnxProgram

LONGEST_RUN = timedelta(hours=12)
"""How long the other ranks wait for rank 0 to end."""

FAREWELL = timedelta(seconds=10)
"""How long rank 0, whose process may hold the store of the group, waits for the others to have heard its exit code."""


def follows() -> bool:
    """Whether this process is a rank other than 0: of a process group, or of a launcher such as torchrun."""
    return _rank() > 0


def _rank() -> int:
    group = _group()
    if group is not None:
        return group.get_rank()
    rank = os.environ.get("RANK", "0") if "WORLD_SIZE" in os.environ else "0"
    return int(rank) if rank.isdigit() else 0


def _group() -> Any:  # the module torch.distributed, which is not imported for an ordinary run
    """torch.distributed, if a process group of several ranks is there."""
    found = sys.modules.get("torch.distributed")
    if found is None or not found.is_available() or not found.is_initialized() or found.get_world_size() < 2:
        return None
    return found


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
    group = _group()
    if group is None:
        return code
    from exporter.distributed.ranks import default_store

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


def is_left_to_rank_0(source: Source) -> bool:
    """Whether this rank has nothing to do: rank 0 holds all of the model, as under DistributedDataParallel."""
    return follows() and not holds_a_part(source)


def holds_a_part(source: Source) -> bool:
    """Whether other ranks hold the rest of the model."""
    from exporter.distributed import is_sharded

    return is_sharded(source.model)


@contextmanager
def to_validate(program: OnnxProgram, source: Source, log: Log) -> Iterator[Source | None]:
    """The source to compare with: for a sharded model one that runs on all ranks. None on ranks other than 0.

    They take part until rank 0 leaves the block.
    """
    from exporter import ExportError

    if not holds_a_part(source):
        yield source
        return
    from exporter.distributed.export import Follower, ShardedProgram

    try:
        if isinstance(program, Follower):
            program.follow()
            yield None
            return
        assert isinstance(program, ShardedProgram)
        with program.running() as model:
            yield replace(source, model=model, whole=program.whole())
    except ExportError as error:
        raise Stop(log, "validate") from error
