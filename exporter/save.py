"""A model on disk: one file, or one with its weights beside it; complete, or not there at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import onnx_ir as ir

SINGLE_FILE_LIMIT = 64 * 1024 * 1024
"""Bytes of weights up to which one file is written. Protobuf ends at 2 GiB, and readers hold all of it in memory."""

EXTERNAL_THRESHOLD = 1024
"""Bytes from which a tensor goes to the file beside the model; smaller ones stay readable in the model."""

ALIGNMENT = 65536
"""Offsets of large tensors, in bytes: the allocation granularity of memory mapping on every platform."""


def save(
    model: ir.Model,
    path: str | os.PathLike[str],
    external_data: Literal["auto"] | bool = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Writes the model to `path` and returns the files written.

    With more than `SINGLE_FILE_LIMIT` bytes of weights, or with `external_data=True`, the weights go to
    `<path>.data`, tensor by tensor: never more than one of them is in memory. All is written to a temporary folder
    beside the target and renamed at the end, so that an interrupted or failing run leaves what was there before.

    Raises OSError where the target cannot be written.
    """
    target = Path(path)
    external = weight_bytes(model) > SINGLE_FILE_LIMIT if external_data == "auto" else external_data
    data = target.with_name(target.name + ".data")
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        draft = Path(folder) / target.name
        ir.save(
            model,
            draft,
            external_data=data.name if external else None,
            size_threshold_bytes=EXTERNAL_THRESHOLD,
            alignment=ALIGNMENT,
            callback=None if progress is None else lambda _, info: progress(info.index + 1, info.total),
        )
        written = []
        if external or data.exists():
            target.unlink(missing_ok=True)  # until the last line there is no model: never an old one with new weights
        if (Path(folder) / data.name).exists():
            os.replace(Path(folder) / data.name, data)
            written.append(data)
        else:
            data.unlink(missing_ok=True)  # of an earlier model of this name, which the new one does not refer to
        os.replace(draft, target)
    return [target, *written]


def weight_bytes(model: ir.Model) -> int:
    """Bytes of all initializers, without reading any."""
    return sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)
