"""Weights that do not fit in memory: mapped from files without a name beside the package."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fxport.exporter.weights import Checkpoint
from fxport.exporter.weights.fill import available_memory

SHARE = 2
"""Weights that take more than one part in so many of the memory that is free are mapped."""

SIZE = 4
"""Bytes of a number in float32, the type of mapped weights."""

ALIGNED = 64
"""Bytes of which the beginning of each tensor is a multiple."""


def outgrows_memory(checkpoint: Checkpoint) -> bool:
    """Return True where the weights in float32 leave too little memory for what is made of them."""
    free = available_memory()
    return free is not None and SHARE * _length(checkpoint) > free


def mapped_weights(checkpoint: Checkpoint, near: Path) -> dict[str, torch.Tensor]:
    """The weights of a checkpoint in float32, in a file that takes room on the disk as long as they are in use.

    Args:
        checkpoint: The weights, which are read and converted one by one.
        near: A path in the folder of the file, or in one that is still to be made.

    Returns:
        The weights by name; those of other types than floating point ones are in memory.

    Raises:
        OSError: The disk has no room.
    """
    total = _length(checkpoint)
    with tempfile.NamedTemporaryFile(dir=_existing(near)) as file:
        _reserve(file.fileno(), total)
        storage: Any = torch.UntypedStorage.from_file(file.name, shared=True, nbytes=total)
    whole = torch.empty(0, dtype=torch.float32).set_(storage)
    found: dict[str, torch.Tensor] = {}
    start = 0
    for name, stored in checkpoint.tensors.items():
        if not stored.dtype.is_floating_point:
            found[name] = stored.read()
            continue
        count = int(np.prod(stored.shape, dtype=np.int64))
        found[name] = whole[start : start + count].view(stored.shape).copy_(stored.read())
        start += _aligned(count * SIZE) // SIZE
    return found


def folder_of_file(weight: torch.Tensor) -> Path | None:
    """The folder of the file from which a tensor is mapped for reading and writing; None for one in memory."""
    name = weight.untyped_storage().filename
    return None if name is None else Path(name).parent


def in_file(array: np.ndarray, folder: Path) -> np.ndarray:
    """The same values in a file without a name."""
    with tempfile.TemporaryFile(dir=folder) as file:
        _reserve(file.fileno(), array.nbytes)
        held = np.memmap(file, array.dtype, "r+", shape=array.shape)
    held[...] = array
    return held


def _length(checkpoint: Checkpoint) -> int:
    """Bytes of the file."""
    shapes = (each.shape for each in checkpoint.tensors.values() if each.dtype.is_floating_point)
    return sum(_aligned(int(np.prod(shape, dtype=np.int64)) * SIZE) for shape in shapes)


def _aligned(length: int) -> int:
    return -(-length // ALIGNED) * ALIGNED


def _reserve(file: int, length: int) -> None:
    """Take the room now: without it, a write to what is mapped would end the process."""
    os.posix_fallocate(file, 0, max(length, 1))


def _existing(path: Path) -> Path:
    return next(each for each in path.absolute().parents if each.is_dir())
