"""The header of a GGUF file, measured before it is read: the library makes objects of each item that it claims.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

from fxport.diagnostics.limits import GGUF as LIMIT
from fxport.diagnostics.limits import LimitError, require_items, require_size

MAGIC, VERSIONS = b"GGUF", (2, 3)
TEXT, LIST = 8, 9
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value by its type; texts and lists say theirs."""

LARGEST_RANK = 8


def require_bounded(path: Path) -> None:
    """Refuse a file by its header.

    Raises ValueError for one that is damaged, LimitError for one with more items than any model has, and OSError.
    """
    with path.open("rb") as file:
        header = _Header(file, path.stat().st_size)
        if header.take(4) != MAGIC or header.number("<I") not in VERSIONS:
            raise ValueError(f"it does not begin as one of version {' or '.join(map(str, VERSIONS))}")
        tensors, entries = header.number("<Q"), header.number("<Q")
        header.count(tensors + entries)
        for _ in range(entries):
            header.text()
            header.value(header.number("<I"))
        for _ in range(tensors):
            header.text()
            rank = header.number("<I")
            if rank > LARGEST_RANK:
                raise ValueError(f"a tensor has {rank} dimensions")
            header.take(8 * rank + 12)


class _Header:
    """A header that is read from its beginning."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.size, self.items, self.bytes = file, size, 0, 0

    def take(self, count: int) -> bytes:
        self.bytes += count
        if self.bytes > self.size:
            raise ValueError("it is cut off")
        require_size(self.bytes, LIMIT)
        return self.file.read(count)

    def number(self, form: str) -> int:
        (found,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return int(found)

    def count(self, items: int) -> None:
        self.items += items
        require_items(self.items, LIMIT)

    def text(self) -> None:
        self.take(self.number("<Q"))

    def value(self, kind: int) -> None:
        if kind == TEXT:
            self.text()
        elif kind == LIST:
            inner, count = self.number("<I"), self.number("<Q")
            self.count(count)
            if inner == LIST:
                raise LimitError("it has lists in lists, as no model does")
            if inner == TEXT:
                for _ in range(count):
                    self.text()
            else:
                self.take(count * _size_of(inner))
        else:
            self.take(_size_of(kind))


def _size_of(kind: int) -> int:
    if kind not in SIZES:
        raise ValueError(f"it has a value of the unknown type {kind}")
    return SIZES[kind]
