"""Table of checkpoint formats, and the one function that opens any of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fxport.exporter.weights import dcp_folders, safetensors_files, torch_files
from fxport.exporter.weights.session_files import checkpoint_of
from fxport.exporter.weights.shards import open_shards, weight_map
from fxport.exporter.weights.stored import Checkpoint, CheckpointError, Stored

ZIP = b"PK\x03\x04"
PICKLE = b"\x80"
"""First bytes of torch.save's files: the zip archive of today, and the pickle of before PyTorch 1.6."""

KNOWN = (
    "a .safetensors file, an index .json of shards, a file of torch.save, a folder with one of them, or a folder of "
    "torch.distributed.checkpoint"
)


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of checkpoint: whether a path is one, and how it is opened."""

    name: str
    fits: Callable[[Path], bool]
    open: Callable[[Path], Checkpoint]


def open_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Opens a checkpoint of any format, without reading its values.

    Raises CheckpointError where there is none at the path, where it is damaged, or where reading it would run code.
    """
    where = Path(path)
    if not where.exists():
        raise CheckpointError(f"there is no '{where}'; give {KNOWN}.")
    try:
        for each in FORMATS:
            if each.fits(where):
                return each.open(where)
    except OSError as error:
        raise CheckpointError(f"'{where}' cannot be read: {error.strerror or error}.") from error
    raise CheckpointError(f"'{where}' is no checkpoint; give {KNOWN}.")


def _starts(path: Path, first: bytes) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(first)) == first


def _is_safetensors(path: Path) -> bool:
    if path.suffix == ".safetensors":
        return path.is_file()
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"


def _is_index(path: Path) -> bool:
    return path.is_file() and path.suffix == ".json"


def _index(path: Path) -> Checkpoint:
    shards = weight_map(path).values()
    safe = all(shard.endswith(".safetensors") for shard in shards)
    return Checkpoint(path, open_shards(path, (safetensors_files if safe else torch_files).open_file))


def _torch(path: Path) -> Checkpoint:
    return Checkpoint(path, torch_files.open_file(path), torch_files.open_optimizer(path))


PARTS = ("*.safetensors.index.json", "*.safetensors", "*.bin.index.json", "*.bin", "*.pt", "*.pth", "*.ckpt")
"""Patterns of checkpoint files in a folder; the first that matches is used."""


def _folder(path: Path) -> Checkpoint:
    for pattern in PARTS:
        found = sorted(path.glob(pattern))
        if len(found) == 1:
            return open_checkpoint(found[0])
        if len(found) > 1 and pattern == "*.safetensors":
            return _many(path, found)
        if found:
            names = ", ".join(each.name for each in found[:5])
            raise CheckpointError(f"'{path}' has more than one checkpoint: {names}; give one of them.")
    if any(path.glob("*.distcp")):
        raise CheckpointError(
            f"'{path}' has parts of a checkpoint, but no '.metadata' that names them; copy it as well."
        )
    raise CheckpointError(f"'{path}' has no checkpoint in it; give {KNOWN}.")


def _many(path: Path, files: list[Path]) -> Checkpoint:
    """Shards without an index: all of them, if no two have a tensor of one name."""
    found: dict[str, Stored] = {}
    for file in files:
        for name, stored in safetensors_files.open_file(file).items():
            if name in found:
                raise CheckpointError(f"'{path}' has '{name}' in more than one file; give the file that is meant.")
            found[name] = stored
    return Checkpoint(path, found)


FORMATS: tuple[Format, ...] = (
    Format("torch.distributed.checkpoint", dcp_folders.fits, dcp_folders.open_folder),
    Format("folder", Path.is_dir, _folder),
    Format("safetensors", _is_safetensors, lambda path: checkpoint_of(path, safetensors_files.open_file(path))),
    Format("index of shards", _is_index, _index),
    Format("torch.save", lambda path: _starts(path, ZIP), _torch),
    Format("torch.save before PyTorch 1.6", lambda path: _starts(path, PICKLE), _torch),
)
"""In the order in which a path is asked; the first that fits opens it."""
