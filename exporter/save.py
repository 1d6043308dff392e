"""A model on disk: one file, or one with its weights beside it; complete, or not there at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import onnx_ir as ir

from diagnostics.paths import is_special
from exporter.lower.weights import RegionTensor
from exporter.weights.stored import CheckpointError

SINGLE_FILE_LIMIT = 64 * 1024 * 1024
"""Bytes of weights up to which one file is written. Protobuf ends at 2 GiB, and readers hold all of it in memory."""

EXTERNAL_THRESHOLD = 1024
"""Bytes from which a tensor goes to the file beside the model; smaller ones stay readable in the model."""

ALIGNMENT = 65536
"""Offsets of large tensors, in bytes: the allocation granularity of memory mapping on every platform."""

Progress = Callable[[int, int], None]


def save(
    model: ir.Model,
    path: str | os.PathLike[str],
    external_data: Literal["auto"] | bool = "auto",
    progress: Progress | None = None,
    *,
    weights_in_place: bool = False,
) -> list[Path]:
    """Writes the model to `path` and returns the files that it consists of.

    With more than `SINGLE_FILE_LIMIT` bytes of weights, or with `external_data=True`, the weights go to
    `<path>.data`, tensor by tensor: never more than one of them is in memory. All is written to a temporary folder
    beside the target and renamed at the end, so that an interrupted or failing run leaves what was there before.

    With `weights_in_place`, weights that lie in the files of a checkpoint as ONNX would have them are not copied: the
    model refers to them there, and these files are among those returned.

    Raises OSError where the target cannot be written, and CheckpointError where weights are to stay in a file that is
    not in the model's folder or below it.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder '{target.parent}' for '{target.name}'; make it first")
    if is_special(target):
        raise FileExistsError(f"'{target}' is no ordinary file, which a model could take the place of; name one")
    kept = in_place(model, target) if weights_in_place else {}
    copied = weight_bytes(model) - sum(tensor.nbytes for tensor in kept.values())
    external = copied > SINGLE_FILE_LIMIT if external_data == "auto" else external_data
    data = target.with_name(target.name + ".data")
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        draft = Path(folder) / target.name
        with _written_beside(model, kept, draft.with_name(data.name) if external else None, progress):
            ir.save(model, draft)
        written = []
        if external or data.exists():
            target.unlink(missing_ok=True)  # until the last line there is no model: never an old one with new weights
        if (Path(folder) / data.name).exists():
            os.replace(Path(folder) / data.name, data)
            written.append(data)
        else:
            data.unlink(missing_ok=True)  # of an earlier model of this name, which the new one does not refer to
        os.replace(draft, target)
    used = {str(tensor.location): target.parent / str(tensor.location) for tensor in kept.values()}
    return [target, *written, *used.values()]


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
    model: ir.Model, kept: Mapping[ir.Value, ir.ExternalTensor], data: Path | None, progress: Progress | None
) -> Iterator[None]:
    """While it lasts, the model refers to its weights: those in `kept` where they are, and others in `data`.

    `data` is written first; without it, the others stay in the model.
    """
    values = [value for graph in model.graphs() for value in graph.initializers.values()]
    before = {value: value.const_value for value in values if value.const_value is not None}
    moved = {
        value: tensor
        for value, tensor in before.items()
        if data is not None and value not in kept and tensor.nbytes > EXTERNAL_THRESHOLD
    }
    try:
        if data is not None and moved:
            beside = ir.external_data.convert_tensors_to_external(
                list(moved.values()),
                data.parent,
                data.name,
                alignment=ALIGNMENT,
                callback=None if progress is None else lambda _, info: progress(info.index + 1, info.total),
            )
            for value, tensor in zip(moved, beside, strict=True):
                value.const_value = tensor
        for value, tensor in kept.items():
            value.const_value = tensor
        yield
    finally:
        for value, tensor in before.items():
            value.const_value = tensor
