"""Messages between a process and its child: a line of JSON and the bytes of arrays. No pickles."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from fxport.ort_runner.dtypes import BY_NAME, element_of

_LENGTH = struct.Struct("<Q")

Message = dict[str, Any]  # Any: whatever JSON holds; both ends are this package


def send(stream: IO[bytes], message: Message, arrays: Mapping[str, np.ndarray] | None = None) -> None:
    """Write one message. Raises OSError when the other end is gone."""
    whole = {name: np.asarray(array, order="C") for name, array in (arrays or {}).items()}
    described = [[name, element_of(array.dtype).name, list(array.shape)] for name, array in whole.items()]
    header = json.dumps({"message": message, "arrays": described}).encode()
    stream.write(_LENGTH.pack(len(header)))
    stream.write(header)
    for array in whole.values():
        stream.write(array.reshape(-1).view(np.uint8).data)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[Message, dict[str, np.ndarray]]:
    """Read one message. Raises EOFError when the other end is gone, also in the middle of a message."""
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    header = json.loads(bytes(_exactly(stream, length)))
    arrays = {}
    for name, type_name, shape in header["arrays"]:
        element = BY_NAME[type_name]
        count = int(np.prod(shape, dtype=np.int64)) * element.dtype.itemsize
        arrays[name] = np.frombuffer(_exactly(stream, count), np.uint8).view(element.dtype).reshape(shape)
    return header["message"], arrays


def _exactly(stream: IO[bytes], count: int) -> bytearray:
    data = bytearray(count)
    view, filled = memoryview(data), 0
    while filled < count:
        got = stream.readinto(view[filled:])  # type: ignore[attr-defined]
        if not got:
            raise EOFError("the other process closed the pipe")
        filled += got
    return data
