"""Save a model: one file, or one with its weights beside it; complete, or what was there before."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import onnx_ir as ir
from google.protobuf.message import EncodeError

from fxport.diagnostics.paths import is_special
from fxport.exporter.lowering.lower.weights import RegionTensor
from fxport.exporter.onnx_program.in_place import SAVED, Companion, data_name, put_in_place, saving
from fxport.exporter.weights.stored import CheckpointError

SINGLE_FILE_LIMIT = 64 * 1024 * 1024
"""Bytes of weights up to which one file is written. Protobuf ends at 2 GiB, and readers hold all of it in memory."""

EXTERNAL_THRESHOLD = 1024
"""Bytes from which a tensor goes to the file beside the model; smaller ones stay readable in the model."""

ALIGNMENT = 65536
"""Offsets of large tensors, in bytes: the allocation granularity of memory mapping on every platform."""

DRAFT_DATA = "weights"
"""Name of the file of weights until its content is known."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Beside:
    """A companion of a model to be saved with it.

    Attributes:
        ending: What its name has for the suffix of the model's.
        content: A model, or what writes the file to a path.
        size: Bytes that it needs at least.
    """

    ending: str
    content: ir.Model | Callable[[Path], object]
    size: int


def save(
    model: ir.Model,
    path: str | os.PathLike[str],
    external_data: Literal["auto"] | bool = "auto",
    progress: Progress | None = None,
    *,
    weights_in_place: bool = False,
    beside: Sequence[Beside] = (),
) -> list[Path]:
    """Writes the model to `path` and returns the files that it consists of.

    With more than `SINGLE_FILE_LIMIT` bytes of weights, or with `external_data=True`, the weights go to a file beside
    it, tensor by tensor: never more than one of them is in memory. Its name has a hash of its content, so that a model
    never meets the weights of another one: `<name>.<hash>.data`.

    All is written to a draft folder beside the target, synced to the disk, and put in place by renaming the model last:
    at any time, also after a kill or a power failure, `path` is the old model or the new one. The weights of the
    old one are removed after that. A link stays one: what it points to is replaced. docs/files.md has all promises.

    With `weights_in_place`, weights that lie in the files of a checkpoint as ONNX would have them are not copied: the
    model refers to them there, and these files are among those returned.

    What is `beside` the model belongs to it, by a number of this save that its metadata must have: who opens the model
    finds those of the same save, or learns that they were replaced. These files are not among those returned.

    Raises OSError where the target cannot be written, and CheckpointError where weights are to stay in a file that is
    not in the model's folder or below it.
    """
    target = Path(path)
    if target.is_symlink():  # its own path only: the files that are returned have the folder's name as it was given
        target = Path(os.path.realpath(target))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder '{target.parent}' for '{target.name}'; make it first")
    if target.is_dir():
        raise IsADirectoryError(f"'{target}' is a folder; name a file in it, such as '{target / 'model.onnx'}'")
    paths = [target, *(target.with_suffix(each.ending) for each in beside)]
    if folders := [each for each in paths[1:] if each.is_dir()]:
        raise IsADirectoryError(f"'{folders[0]}' is a folder, which no file can take the place of; name another model")
    if special := [each for each in paths if is_special(each)]:
        raise FileExistsError(f"'{special[0]}' is no ordinary file, which a model could take the place of; name one")
    kept = in_place(model, target) if weights_in_place else {}
    with saving(target) as folder:
        copied = weight_bytes(model) - sum(tensor.nbytes for tensor in kept.values())
        _require_space(folder, copied + sum(each.size for each in beside))
        companions, data = [], []
        for each, path in zip(beside, paths[1:], strict=True):
            draft = folder / f"beside{each.ending}"
            if isinstance(each.content, ir.Model):
                data += _written(each.content, {}, draft, path.name, external_data, progress)
            else:
                each.content(draft)
            companions.append(Companion(draft, path.name, model.metadata_props[SAVED]))
        draft = folder / f"model{target.suffix}"  # the suffix tells the format
        data = [*_written(model, kept, draft, target.name, external_data, progress), *data]
        put_in_place(target, draft, data, companions)
    used = {str(tensor.location): target.parent / str(tensor.location) for tensor in kept.values()}
    return [target, *(target.with_name(each.name) for each in data), *used.values()]


def _written(
    model: ir.Model,
    kept: Mapping[ir.Value, ir.ExternalTensor],
    draft: Path,
    name: str,
    external_data: Literal["auto"] | bool,
    progress: Progress | None,
) -> list[Path]:
    """Write a model of this `name` to a draft. Returns the file of its weights beside the draft, if there is one."""
    copied = weight_bytes(model) - sum(tensor.nbytes for tensor in kept.values())
    external = copied > SINGLE_FILE_LIMIT if external_data == "auto" else external_data
    with _written_beside(model, kept, draft.parent if external else None, name, progress) as data:
        try:
            ir.save(model, draft)
        except EncodeError as error:  # protobuf says no more; within its limit, what it lacks is memory
            if external or copied <= SINGLE_FILE_LIMIT:
                raise MemoryError("the bytes of the model's file") from error
            raise
    return [] if data is None else [data]


def _require_space(folder: Path, needed: int) -> None:
    """Raises OSError before a file of weights is begun that the disk has no room for."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        reason = f"{os.strerror(errno.ENOSPC)}: the weights need {needed:,} bytes, {free:,} are free"
        raise OSError(errno.ENOSPC, reason, str(folder))


def in_place(model: ir.Model, target: Path) -> dict[ir.Value, ir.ExternalTensor]:
    """The weights that can stay where they are, each as a reference from the model's folder.

    A tensor at an odd offset is left out: what reads it by memory mapping needs it at a multiple of its element.
    Raises CheckpointError where their files are not in that folder or below it, by their real paths.
    """
    folder = target.parent.resolve()
    kept: dict[ir.Value, ir.ExternalTensor] = {}
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if not isinstance(tensor, RegionTensor) or tensor.nbytes <= EXTERNAL_THRESHOLD:
            continue
        region = tensor.region
        if region.offset % max(1, tensor.dtype.itemsize):
            continue
        real = region.path.resolve()
        if not real.is_relative_to(folder):
            raise CheckpointError(
                f"'{real}' is not in the folder of '{target}', where ONNX Runtime looks for weights; "
                "write the model beside the checkpoint, or leave --weights-in-place out."
            )
        location = real.relative_to(folder).as_posix()
        kept[value] = ir.ExternalTensor(
            location, region.offset, region.length, tensor.dtype, shape=tensor.shape, name=str(value.name)
        )
    return kept


def weight_bytes(model: ir.Model) -> int:
    """Bytes of all initializers, without reading any."""
    return sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)


@contextmanager
def _written_beside(
    model: ir.Model,
    kept: Mapping[ir.Value, ir.ExternalTensor],
    folder: Path | None,
    name: str,
    progress: Progress | None,
) -> Iterator[Path | None]:
    """While it lasts, the model refers to its weights: those in `kept` where they are, and others in a new file.

    That file is written first, to `folder`, under the name that it has beside a model of this `name`; None if there are
    no such weights. Without `folder`, they stay in the model.
    """
    values = [value for graph in model.graphs() for value in graph.initializers.values()]
    before = {value: value.const_value for value in values if value.const_value is not None}
    movable = {} if folder is None else {value: tensor for value, tensor in before.items() if value not in kept}
    moved = {value: tensor for value, tensor in movable.items() if tensor.nbytes > EXTERNAL_THRESHOLD}
    if not moved and not kept:  # of a small model: its weights, whatever their size, and no constants
        moved = {value: each for value, each in movable.items() if isinstance(each, ir.LazyTensor) and each.nbytes}
    data: Path | None = None
    try:
        if folder is not None and moved:
            beside = ir.external_data.convert_tensors_to_external(
                list(moved.values()),
                folder,
                DRAFT_DATA,
                alignment=ALIGNMENT,
                callback=None if progress is None else lambda _, info: progress(info.index + 1, info.total),
            )
            with (folder / DRAFT_DATA).open("rb") as file:
                data = folder / data_name(name, hashlib.file_digest(file, "sha256").hexdigest())
            for value, tensor in zip(moved, beside, strict=True):
                value.const_value = ir.ExternalTensor(
                    data.name, tensor.offset, tensor.length, tensor.dtype, shape=tensor.shape, name=str(value.name)
                )
            (folder / DRAFT_DATA).rename(data)
        for value, tensor in kept.items():
            value.const_value = tensor
        yield data
    finally:
        for value, tensor in before.items():
            value.const_value = tensor
