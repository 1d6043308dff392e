"""Checkpoints of a training session: a safetensors file with the state, and in its metadata what resuming needs."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fxport.diagnostics.limits import HEADER, json_of, require_size
from fxport.diagnostics.paths import is_special, written_whole
from fxport.ort_runner.dtypes import BY_NAME
from fxport.ort_runner.json_values import count
from fxport.ort_runner.train_files import SAVED
from fxport.ort_runner.train_inputs import RefusedInput, as_seed

STEPS, SEED, RATES = "steps", "seed", "rates"
"""Keys of the metadata: the steps that the state has behind it, the seed of the run, the learning rates as JSON."""

DTYPES: Mapping[str, str] = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
"""Names of dtypes in the file, and in `fxport.ort_runner.dtypes`."""

LENGTH_BYTES = 8
"""Length of the header, in front of it."""

METADATA = "__metadata__"


@dataclass(frozen=True)
class RunState:
    """Everything that a run goes on from. A file that is no session's own may have the tensors alone.

    `save` is the number of the save of a step that the file belongs to; a session's own belong to none.
    """

    tensors: Mapping[str, np.ndarray]
    steps: int = 0
    seed: int | None = None
    rates: Mapping[str, float] | None = field(default=None)
    save: str | None = None


def write_checkpoint(path: str | os.PathLike[str], run: RunState) -> None:
    """Write a checkpoint, whole or not at all. Raises OSError, also for a device or a pipe."""
    from safetensors.numpy import save_file

    if is_special(Path(path)):  # whose place a file of safetensors' would take
        raise OSError(errno.EINVAL, "it is no ordinary file, but a device or a pipe", str(path))
    metadata = {STEPS: str(run.steps)}
    if run.seed is not None:
        metadata[SEED] = str(run.seed)
    if run.rates is not None:
        metadata[RATES] = json.dumps(dict(run.rates))
    with written_whole(Path(path)) as draft:
        save_file(dict(run.tensors), draft, metadata=metadata)


def read_checkpoint(path: str | os.PathLike[str]) -> RunState:
    """Open a checkpoint; its tensors are read where they are copied. Raises OSError, and RefusedInput if it is none.

    The file is opened once: another one may take its place at any moment.
    """
    if is_special(Path(path)):
        raise RefusedInput(f"'{path}' is no ordinary file, but a device or a pipe")
    with Path(path).open("rb") as file:
        try:
            header, start = _header(file)
            values = np.memmap(file, np.uint8, "r")[start:] if header.keys() - {METADATA} else np.empty(0, np.uint8)
            metadata = header.pop(METADATA, None) or {}
            if not isinstance(metadata, dict):
                raise ValueError("its metadata is no table")
            tensors = {name: _tensor(values, name, entry, path) for name, entry in header.items()}
            if len(values) != sum(tensor.nbytes for tensor in tensors.values()):
                raise ValueError("its tensors do not fill it")
        except RefusedInput:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise RefusedInput(f"'{path}' is damaged, or no safetensors file: {error}") from error
    try:
        steps = int(metadata.get(STEPS, 0))
        seed = as_seed(int(metadata[SEED])) if SEED in metadata else None
        rates = json.loads(metadata[RATES]) if RATES in metadata else None
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise RefusedInput(f"'{path}' is no checkpoint of a training session: {error}") from error
    return RunState(tensors, steps, seed, rates, metadata.get(SAVED))


def _header(file: BinaryIO) -> tuple[dict[str, Any], int]:
    """The header, and the byte at which the values begin. Raises ValueError."""
    length = int.from_bytes(file.read(LENGTH_BYTES), "little")
    size = os.fstat(file.fileno()).st_size
    require_size(length, HEADER)
    if LENGTH_BYTES + length > size:
        raise ValueError("its header is incomplete")
    header = json_of(file.read(length), HEADER)
    if not isinstance(header, dict):
        raise ValueError("its header is no table")
    return header, LENGTH_BYTES + length


def _tensor(values: np.ndarray, name: str, entry: Mapping[str, Any], path: str | os.PathLike[str]) -> np.ndarray:
    kind = DTYPES.get(entry["dtype"])
    if kind is None:
        raise RefusedInput(f"'{path}' has '{name}' in the type {entry['dtype']}, which no training step has")
    begin, end = map(count, entry["data_offsets"])
    if not begin <= end <= len(values):
        raise ValueError(f"the values of '{name}' are beyond its end")
    return values[begin:end].view(BY_NAME[kind].dtype).reshape(tuple(map(count, entry["shape"])))
