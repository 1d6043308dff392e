"""Checkpoints in several files, and the index that says which file has which tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fxport.diagnostics.limits import INDEX, json_of, read_bounded
from fxport.exporter.weights.stored import CheckpointError, Stored


def open_shards(path: Path, open_file: Callable[[Path], Mapping[str, Stored]]) -> dict[str, Stored]:
    """The tensors of all shards that an index names, each opened by `open_file`.

    Raises CheckpointError for a shard that is absent, or lacks a tensor that the index says it has.
    """
    shards: dict[str, Mapping[str, Stored]] = {}
    found: dict[str, Stored] = {}
    for name, shard in weight_map(path).items():
        if shard not in shards:
            shards[shard] = open_file(_shard_path(path, shard))
        if name not in shards[shard]:
            raise CheckpointError(f"'{path}' names '{name}' in '{shard}', which has no such tensor; get both again.")
        found[name] = shards[shard][name]
    return found


def weight_map(path: Path) -> dict[str, str]:
    """Name of a tensor → name of the file that has it, as an index says."""
    try:
        index: Any = json_of(read_bounded(path, INDEX), INDEX)  # what a file holds has no type
        found = {str(name): str(shard) for name, shard in index["weight_map"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"'{path}' is no index of a checkpoint: it has no 'weight_map'.") from error
    if not found:
        raise CheckpointError(f"'{path}' is an index of nothing: its 'weight_map' is empty.")
    return found


def _shard_path(index: Path, shard: str) -> Path:
    """The file that an index names, which must be in the folder of the index."""
    path = index.parent / shard
    if Path(shard).is_absolute() or ".." in Path(shard).parts:
        raise CheckpointError(f"'{index}' names a shard outside of its folder, '{shard}', which is not read.")
    if not path.is_file():
        raise CheckpointError(f"'{index}' names the shard '{shard}', which is not there; put it beside the index.")
    return path
