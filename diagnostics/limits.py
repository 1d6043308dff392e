"""Limits of what is read from files, and of what runs a model: one table, and the functions that hold files to it.

A file that somebody else made may claim or unpack to any size, nest to any depth, or hold a model that never ends.
Sizes are far above those of real files: who meets one has a damaged file, or one that means harm.
"""

from __future__ import annotations

import errno
import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fxport.diagnostics.amounts import size
from fxport.diagnostics.errors import FxportError
from fxport.diagnostics.paths import is_special


@dataclass(frozen=True, slots=True)
class Limit:
    """Limits of one kind of file; None where there is none.

    Attributes:
        what: The file, or the part of it that is read as a whole.
        bytes: Size of that part; of an archive, of all its entries together.
        ratio: Times the size of an archive that its entries may have, where that is more than `bytes`.
        depth: Levels of lists and tables.
        items: Nodes of a model, results of a log, objects of a pickle as often as they are referred to.
        seconds: Time for each request to the process that opens and runs a model.
        memory: Bytes that this process may take.
    """

    what: str
    bytes: int | None = None
    ratio: float | None = None
    depth: int | None = None
    items: int | None = None
    seconds: float | None = None
    memory: int | None = None


MB, GB = 1_000_000, 1_000_000_000

SARIF = Limit("a SARIF log", bytes=64 * MB, depth=64, items=25_000)
SOURCE = Limit("a source file whose lines are shown", bytes=16 * MB)
TOML = Limit("`fxport.toml`, `pyproject.toml`", bytes=1 * MB, depth=32)
GIT = Limit("a file of git's: `config`, `HEAD`, `packed-refs`", bytes=16 * MB)
LOCK = Limit("`fxport.lock`", bytes=16 * MB, depth=16)
CONFIG = Limit("`config.json`, `genai_config.json` and other settings of a model", bytes=16 * MB, depth=64)
TOKENIZER = Limit("`tokenizer.json`, and its use", bytes=128 * MB, seconds=20.0, memory=2 * GB)
GGUF = Limit("the header of a GGUF file", bytes=256 * MB, items=3 * MB)
INDEX = Limit("an index of shards", bytes=64 * MB, depth=16)
HEADER = Limit("the header of a safetensors file", bytes=100 * MB, depth=16)
METADATA = Limit("metadata of fxport's in an ONNX model", bytes=64 * MB, depth=64)
PICKLE = Limit("the pickle in a file of torch.save", bytes=16 * MB, items=50 * MB)
DCP = Limit("`.metadata` of torch.distributed.checkpoint", bytes=256 * MB, items=50 * MB)
PT2 = Limit("a `.pt2` file", bytes=256 * MB, ratio=4.0)
ARRAYS = Limit("a `.npz` file", bytes=1 * GB, ratio=4.0)
STRUCTURE = Limit("an ONNX model without its weights", bytes=256 * MB, items=1_000_000)
RUN = Limit("opening or running an ONNX model", seconds=40.0, memory=2 * GB)

LIMITS = (
    *(SARIF, SOURCE, TOML, GIT, LOCK, CONFIG, TOKENIZER),
    *(GGUF, INDEX, HEADER),
    *(METADATA, PICKLE, DCP, PT2, ARRAYS, STRUCTURE, RUN),
)
"""All of them, in the order of the table in docs/security.md."""


class LimitError(FxportError, ValueError):
    """A file that exceeds a limit. The text says which."""


def read_bounded(path: str | os.PathLike[str], limit: Limit) -> bytes:
    """Read a whole file. Raises LimitError for one that is larger than the limit, OSError if it cannot be read."""
    assert limit.bytes is not None
    if is_special(Path(path)):  # opening a pipe waits for who writes to it
        raise OSError(errno.EINVAL, "it is no ordinary file, but a device or a pipe", str(path))
    with Path(path).open("rb") as file:
        content = file.read(limit.bytes + 1)  # it may grow
    require_size(len(content), limit)
    return content


def require_size(count: int, limit: Limit) -> None:
    """Refuse a part of a file by its size in bytes. Raises LimitError."""
    if limit.bytes is not None and count > limit.bytes:
        raise LimitError(f"more than {size(limit.bytes)} are too much for {limit.what.replace('`', '')}")


def require_items(count: int, limit: Limit) -> None:
    """Refuse a file by the number of its items. Raises LimitError."""
    if limit.items is not None and count > limit.items:
        raise LimitError(f"it has {count:,} items; {limit.items:,} are the most for {limit.what.replace('`', '')}")


def json_of(text: str | bytes, limit: Limit, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """Parse JSON. Raises LimitError for text that is too long or nests too deeply, ValueError for what is no JSON."""
    require_size(len(text), limit)
    try:
        value = json.loads(text, parse_constant=parse_constant)
    except RecursionError:
        raise LimitError(_too_deep(limit)) from None
    return require_depth(value, limit)


def require_depth(value: Any, limit: Limit) -> Any:
    """Return a parsed value if its lists and tables nest no deeper than the limit. Raises LimitError."""
    level, depth = [value], 0
    while level := [each for each in level if isinstance(each, dict | list)]:
        depth += 1
        if limit.depth is not None and depth > limit.depth:
            raise LimitError(_too_deep(limit))
        level = [part for each in level for part in (each.values() if isinstance(each, dict) else each)]
    return value


def require_unpackable(path: str | os.PathLike[str], limit: Limit) -> None:
    """Refuse an archive whose entries are larger together than the limit.

    Raises LimitError; zipfile.BadZipFile or OSError for what cannot be read as an archive.
    """
    assert limit.bytes is not None
    with zipfile.ZipFile(path) as archive:
        total = sum(entry.file_size for entry in archive.infolist())
    most = max(limit.bytes, int((limit.ratio or 0) * Path(path).stat().st_size))
    if total > most:
        what = limit.what.replace("`", "")
        raise LimitError(f"it unpacks to {size(total)}; {size(most)} are the most for {what} of its size")


def _too_deep(limit: Limit) -> str:
    return f"it nests more than {limit.depth} levels deep, which is too much for {limit.what.replace('`', '')}"
