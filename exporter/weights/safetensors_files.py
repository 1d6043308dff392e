"""Safetensors files: headers are read here, values by whoever asks for them.

The format is that of https://github.com/huggingface/safetensors: eight bytes with the length of a JSON header, the
header {name: {dtype, shape, data_offsets}}, and the values, whose offsets count from the end of the header.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from fxport.diagnostics.limits import HEADER, json_of
from fxport.exporter.weights.stored import CheckpointError, Region, Stored, in_region

LENGTH_BYTES = 8

DTYPES: Mapping[str, torch.dtype] = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "U16": torch.uint16,
    "U32": torch.uint32,
    "U64": torch.uint64,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "C64": torch.complex64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
}


def open_file(path: Path) -> dict[str, Stored]:
    """The tensors of one file. Raises CheckpointError where its header and its length do not agree."""
    header, start = _header(path)
    size = path.stat().st_size
    found: dict[str, Stored] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype, shape, begin, end = _entry(path, name, entry)
        if start + end > size:
            raise CheckpointError(
                f"'{path}' is truncated: '{name}' ends at byte {start + end}, the file at {size}; get it again."
            )
        found[name] = in_region(name, dtype, shape, Region(path, start + begin, end - begin))
    return found


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """The header, and the byte at which the values begin."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        text = file.read(length) if length <= (HEADER.bytes or 0) else b""  # the format's own limit
    if len(text) < max(length, 2):
        raise CheckpointError(f"'{path}' is truncated, or no safetensors file: its header is incomplete; get it again.")
    try:
        header = json_of(text, HEADER)
    except ValueError as error:
        raise CheckpointError(f"'{path}' is no safetensors file: its header is not JSON.") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"'{path}' is no safetensors file: its header is no JSON object.")
    return header, LENGTH_BYTES + length


def _entry(path: Path, name: str, entry: Any) -> tuple[torch.dtype, tuple[int, ...], int, int]:
    try:
        kind, shape, (begin, end) = entry["dtype"], tuple(map(int, entry["shape"])), map(int, entry["data_offsets"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(f"'{path}' is damaged: the entry of '{name}' in its header is incomplete.") from error
    if not isinstance(kind, str) or kind not in DTYPES:
        raise CheckpointError(f"'{path}' has '{name}' in the type {kind}, which PyTorch does not have.")
    dtype = DTYPES[kind]
    if min((begin, *shape)) < 0 or end - begin != math.prod(shape) * dtype.itemsize:
        raise CheckpointError(f"'{path}' is damaged: '{name}' is {kind} {list(shape)}, but {end - begin} bytes long.")
    return dtype, shape, begin, end
