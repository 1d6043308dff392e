"""One tensor in a file, and a checkpoint of many: known by name, type and shape, not read yet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from fxport.diagnostics.errors import FxportError


class CheckpointError(FxportError, ValueError):
    """A checkpoint that cannot be read, or is none. The text names the file, says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Region:
    """Region of a tensor's values in a file, row-major and little-endian. Offset and length are in bytes."""

    path: Path
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor of a checkpoint under its name there. `region` is None where its values are in pieces or in strides."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    read: Callable[[], torch.Tensor]
    region: Region | None = None

    @property
    def nbytes(self) -> int:
        """Size of the values, in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An opened checkpoint. `tensors` are the weights by name; `optimizer` is its state by (parameter, key).

    One with `all_buffers` also has those that a module keeps out of its state dict.
    """

    path: Path
    tensors: Mapping[str, Stored]
    optimizer: Mapping[tuple[str, str], Stored] = field(default_factory=dict)
    all_buffers: bool = False


def in_region(name: str, dtype: torch.dtype, shape: tuple[int, ...], region: Region) -> Stored:
    """A tensor whose values are one region of a file."""
    return Stored(name, dtype, shape, lambda: values_of(region, dtype, shape), region)


def require_whole(tensors: Iterable[Stored]) -> None:
    """Raises CheckpointError where a file has become shorter since it was opened, before anything is written."""
    ends: dict[Path, int] = {}
    for region in (stored.region for stored in tensors):
        if region is not None:
            ends[region.path] = max(ends.get(region.path, 0), region.offset + region.length)
    for path, end in ends.items():
        if not path.is_file() or path.stat().st_size < end:
            raise CheckpointError(f"'{path}' has become shorter since it was opened, or is gone; get it again.")


def values_of(region: Region, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """Reads a region into memory of its own. Raises CheckpointError where the file is shorter than it was."""
    if region.length == 0:
        return torch.empty(shape, dtype=dtype)
    held = bytearray(region.length)
    with region.path.open("rb") as file:
        file.seek(region.offset)
        if file.readinto(held) != region.length:
            raise CheckpointError(f"'{region.path}' has become shorter while it was read; get it again.")
    return torch.frombuffer(held, dtype=dtype).reshape(shape)
