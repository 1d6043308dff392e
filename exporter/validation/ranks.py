"""A run on several ranks: which of them speaks, and how a model that they hold together is compared."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fxport.diagnostics import Log, Stop
from fxport.exporter.sources.source import Source

if TYPE_CHECKING:
    from fxport.exporter.onnx_program import OnnxProgram


def follows() -> bool:
    """Return True if this process is a rank other than 0: of a process group, or of a launcher such as torchrun."""
    return _rank() > 0


def _rank() -> int:
    group = group_of_ranks()
    if group is not None:
        return group.get_rank()
    rank = os.environ.get("RANK", "0") if "WORLD_SIZE" in os.environ else "0"
    return int(rank) if rank.isdigit() else 0


def group_of_ranks() -> Any:  # the module torch.distributed, which is not imported for an ordinary run
    """torch.distributed, if a process group of several ranks is there."""
    found = sys.modules.get("torch.distributed")
    if found is None or not found.is_available() or not found.is_initialized() or found.get_world_size() < 2:
        return None
    return found


def is_left_to_rank_0(source: Source) -> bool:
    """Return True if this rank has nothing to do: rank 0 holds all of the model, as under DistributedDataParallel."""
    return follows() and not holds_a_part(source)


def holds_a_part(source: Source) -> bool:
    """Return True if other ranks hold the rest of the model."""
    from fxport.exporter.distributed import is_sharded

    return is_sharded(source.model)


@contextmanager
def to_validate(program: OnnxProgram, source: Source, log: Log) -> Iterator[Source | None]:
    """The source to compare with: for a sharded model one that runs on all ranks. None on ranks other than 0.

    They take part until rank 0 leaves the block.
    """
    from fxport.exporter.pipeline.errors import ExportError

    if not holds_a_part(source):
        yield source
        return
    from fxport.exporter.distributed.export import Follower, ShardedProgram

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
