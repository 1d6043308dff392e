"""Folders of torch.distributed.checkpoint, read without a process group, and without running any code of theirs.

A folder has `.metadata`, a pickle that says which tensors there are and in which pieces, and files with the pieces,
each a small file of torch.save at an offset.
"""

from __future__ import annotations

import io
import math
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import torch
from torch._subclasses import FakeTensorMode

from fxport.diagnostics.limits import DCP, LimitError, read_bounded
from fxport.diagnostics.messages import error_line, error_text
from fxport.exporter.weights.pickles import load_restricted, require_small
from fxport.exporter.weights.stored import Checkpoint, CheckpointError, Region, Stored, values_of

METADATA = ".metadata"

COPIED = 1 << 20
"""Bytes up to which a tensor is read when it is asked for; larger ones are looked up in their files, to be streamed."""

STATE = re.compile(r"^(?:.+\.)?(?:optim|optimizer|optimizers|optim_state|optimizer_state)\.state\.(.+)\.([^.]+)$")
"""`optim.state.<parameter>.<key>`, as torch.distributed.checkpoint.state_dict names the state of an optimizer."""

GROUPS = re.compile(r"^(?:.+\.)?(?:optim|optimizer|optimizers|optim_state|optimizer_state)\.param_groups\.")

CLASSES: Mapping[str, frozenset[str]] = {
    "torch.distributed.checkpoint.metadata": frozenset(
        (
            "BytesStorageMetadata",
            "ChunkStorageMetadata",
            "Metadata",
            "MetadataIndex",
            "StorageMeta",
            "TensorProperties",
            "TensorStorageMetadata",
            "_MEM_FORMAT_ENCODING",
        )
    ),
    "torch.distributed.checkpoint.filesystem": frozenset(("_StorageInfo",)),
    "torch.distributed._shard.sharded_tensor.metadata": frozenset(("MEM_FORMAT_ENCODING", "TensorProperties")),
    "torch.serialization": frozenset(("_get_layout",)),
    "torch": frozenset(("Size", *(name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)))),
    "collections": frozenset(("OrderedDict",)),
}
"""Classes that a pickle of metadata may name, by module. A path becomes a PurePath, which any system can hold."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a tensor: where it begins in it, its sizes, and the bytes of its file of torch.save."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    region: Region


def fits(path: Path) -> bool:
    """Return True if a path is a folder of torch.distributed.checkpoint."""
    return (path / METADATA).is_file()


def open_folder(path: Path) -> Checkpoint:
    """The weights and the optimizer's state in a folder.

    Raises CheckpointError where the metadata is damaged or would run code, or a file of pieces is absent or too short.
    """
    metadata = _metadata(path / METADATA)
    try:
        return _described_by(metadata, path)
    except (CheckpointError, OSError):
        raise
    except Exception as error:  # its classes are those of PyTorch, their values anybody's
        raise CheckpointError(f"'{path / METADATA}' is damaged: {error_line(error)}.") from error


def _described_by(metadata: Any, path: Path) -> Checkpoint:
    regions = {
        (index.fqn, tuple(index.offset or ())): _region(path, index.fqn, info)
        for index, info in metadata.storage_data.items()
    }
    tensors: dict[str, Stored] = {}
    optimizer: dict[tuple[str, str], Stored] = {}
    for name, entry in metadata.state_dict_metadata.items():
        if not hasattr(entry, "chunks") or GROUPS.match(name):
            continue  # a number, or a setting
        pieces = _pieces(path, name, entry.chunks, regions)
        state = STATE.match(name)
        stored = _stored(name, entry.properties.dtype, tuple(entry.size), pieces, in_file=state is None)
        if state:
            optimizer[state[1], state[2]] = stored
        else:
            tensors[name] = stored
    if not tensors:
        raise CheckpointError(f"'{path}' has no tensors of a model in it.")
    return Checkpoint(path, tensors, optimizer)


class _Unpickler(pickle.Unpickler):
    """Makes the objects of a metadata file and no others."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        if module_name in ("pathlib", "pathlib._local") and global_name.endswith("Path"):
            return PurePath
        if global_name not in CLASSES.get(module_name, ()):
            raise pickle.UnpicklingError(f"it names '{module_name}.{global_name}'")
        return super().find_class(module_name, global_name)


def _metadata(path: Path) -> Any:
    try:
        content = read_bounded(path, DCP)
        require_small(io.BytesIO(content), DCP)
        held = _Unpickler(io.BytesIO(content)).load()
        if not isinstance(held.state_dict_metadata, dict) or not isinstance(held.storage_data, dict):
            raise TypeError("it is no description of tensors")
    except OSError:
        raise
    except LimitError as error:
        raise CheckpointError(f"'{path}' is not read: {error}.") from error
    except pickle.UnpicklingError as error:
        raise CheckpointError(f"'{path}' is damaged, or would run code, which is refused: {error}.") from error
    except Exception as error:  # a damaged pickle makes Python raise what it likes
        raise CheckpointError(f"'{path}' is damaged: {error_line(error)}.") from error
    return held


def _region(folder: Path, name: str, info: Any) -> Region:
    if not isinstance(info.relative_path, str | PurePath):
        raise TypeError(f"the file of '{name}' is no path")
    relative = PurePath(info.relative_path)
    path = folder / relative
    if relative.is_absolute() or ".." in relative.parts:
        raise CheckpointError(f"'{folder}' says that '{name}' is outside of it, in '{relative}', which is not read.")
    if getattr(info, "transform_descriptors", None):
        raise CheckpointError(f"'{path}' is written with an extension, {info.transform_descriptors}; save it without.")
    if not path.is_file():
        raise CheckpointError(f"'{folder}' says that '{name}' is in '{relative}', which is not there; copy all files.")
    size = path.stat().st_size
    if info.offset + info.length > size:
        end = info.offset + info.length
        raise CheckpointError(f"'{path}' is truncated: '{name}' ends at byte {end}, the file at {size}; get it again.")
    return Region(path, info.offset, info.length)


def _pieces(
    folder: Path, name: str, chunks: Sequence[Any], regions: Mapping[tuple[str, tuple[int, ...]], Region]
) -> list[Piece]:
    pieces = []
    for chunk in chunks:
        offsets = tuple(chunk.offsets)
        if (name, offsets) not in regions:
            raise CheckpointError(f"'{folder}' is damaged: no file has the piece of '{name}' at {list(offsets)}.")
        pieces.append(Piece(offsets, tuple(chunk.sizes), regions[name, offsets]))
    return pieces


def _stored(name: str, dtype: torch.dtype, shape: tuple[int, ...], pieces: Sequence[Piece], *, in_file: bool) -> Stored:
    """A tensor of pieces. With `in_file`, one that is a single piece is looked up in its file, values unread."""

    def read() -> torch.Tensor:
        return _assembled(name, dtype, shape, pieces)

    large = math.prod(shape) * dtype.itemsize > COPIED
    whole = in_file and large and len(pieces) == 1 and pieces[0].sizes == shape
    region = _values_at(name, pieces[0], dtype) if whole else None
    if region is None:
        return Stored(name, dtype, shape, read)
    return Stored(name, dtype, shape, lambda: values_of(region, dtype, shape), region)


def _assembled(name: str, dtype: torch.dtype, shape: tuple[int, ...], pieces: Sequence[Piece]) -> torch.Tensor:
    """The tensor, one piece in memory at a time beside it."""
    whole = torch.empty(shape, dtype=dtype)
    covered = 0
    for piece in pieces:
        values = _loaded(name, piece)
        if values.dtype != dtype or tuple(values.shape) != piece.sizes:
            raise CheckpointError(f"'{piece.region.path}' is damaged: a piece of '{name}' has another type or shape.")
        part = whole
        for axis, (offset, size) in enumerate(zip(piece.offsets, piece.sizes, strict=True)):
            part = part.narrow(axis, offset, size)
        part.copy_(values)
        covered += values.numel()
    if covered != whole.numel():
        raise CheckpointError(f"'{name}' is incomplete: its pieces have {covered} of {whole.numel()} values.")
    return whole


def _loaded(name: str, piece: Piece) -> torch.Tensor:
    try:
        with io.BufferedReader(_Slice(piece.region)) as file:
            held = load_restricted(file)
    except Exception as error:  # a damaged file makes the unzipper and torch raise what they like
        raise CheckpointError(f"'{piece.region.path}' cannot be read at '{name}': {error_text(error)}.") from error
    if not isinstance(held, torch.Tensor):
        raise CheckpointError(f"'{piece.region.path}' is damaged: '{name}' is a {type(held).__name__}, no tensor.")
    return held


def _values_at(name: str, piece: Piece, dtype: torch.dtype) -> Region | None:
    """Return the region of a piece's values in its file; None for malformed values, which are reported on reading."""
    with FakeTensorMode():  # PyTorch then notes the offset of a tensor instead of reading it
        held = _loaded(name, piece)
    offset = getattr(held.untyped_storage(), "_checkpoint_offset", None)
    if offset is None or held.dtype != dtype or tuple(held.shape) != piece.sizes or not held.is_contiguous():
        return None
    begin = piece.region.offset + offset + int(held.storage_offset()) * dtype.itemsize
    return Region(piece.region.path, begin, held.numel() * dtype.itemsize)


class _Slice(io.RawIOBase):
    """A part of a file as a file of its own, which is read as it is asked for."""

    def __init__(self, region: Region) -> None:
        super().__init__()
        self.region, self.at = region, 0
        self.file = region.path.open("rb")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.region.length}[whence]
        self.at = base + offset
        return self.at

    def tell(self) -> int:
        return self.at

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self.region.length - self.at))
        self.file.seek(self.region.offset + self.at)
        got = self.file.readinto(view[:count])
        self.at += got
        return got

    def close(self) -> None:
        self.file.close()
        super().close()
