"""Put a model and its file of weights in place as one thing, and remove what no model refers to any more."""

from __future__ import annotations

import json
import mmap
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fxport.diagnostics.drafts import PREFIX, committing, dead_drafts, draft_folder, put, sync_file, sync_folder

SAVE = ".save"
"""Suffix of the draft folders of models, which may leave a file of weights beside them."""

MODEL = ".onnx"

LONGEST_NAME = 255
"""Bytes of a file name on the usual file systems."""

HASH = 16
"""Hexadecimal digits of the hash in the name of a file of weights."""

_LEFT = "left"
"""File in a draft folder: JSON list of the files of weights that may be without a model if the process ends here."""

_DATA = re.compile(rf"\.[0-9a-f]{{{HASH}}}\.data")
_OURS = re.compile(rf"[^/\\\0]+\.[0-9a-f]{{{HASH}}}\.data|[^/\\\0]+\.onnx\.data")


def data_name(name: str, digest: str) -> str:
    """The name of the file of weights beside a model of this name, given the hexadecimal hash of its content."""
    ending = f".{digest[:HASH]}.data"
    return _begun(name) + ending


@contextmanager
def saving(target: Path) -> Iterator[Path]:
    """Give a draft folder for a model at `target`, once what dead processes left is removed. Raises OSError.

    The error names `target` where it names no file, or a draft.
    """
    try:
        with committing(target.parent):
            for dead in dead_drafts(target.parent, SAVE):
                _remove_unused(target.parent, _left_by(dead), {MODEL, target.suffix})
                shutil.rmtree(dead, ignore_errors=True)
        with draft_folder(target.parent, SAVE) as folder:
            yield folder
    except OSError as error:
        if error.filename is None or PREFIX in str(error.filename):  # a full disk names no file
            error.filename = str(target)
        raise


def put_in_place(target: Path, draft: Path, data: Path | None) -> None:
    """Give a complete draft of a model the place of `target`, and its file of weights, if any, a place beside it.

    The model is renamed last; then the weights of the one that was there are removed, unless a model in the folder
    refers to them. One process at a time does this in a folder. Raises OSError; then `target` is what it was.
    """
    folder = target.parent
    for each in filter(None, (data, draft)):
        sync_file(each)
    with committing(folder):
        old = _data_of(target)
        new = [] if data is None else [data.name]
        (draft.parent / _LEFT).write_text(json.dumps([*old, *new]), encoding="utf-8")
        try:
            if data is not None:
                put(data, folder / data.name, mode_of=target)
                sync_folder(folder)  # the name of the weights is on the disk before that of the model
            put(draft, target)
            sync_folder(folder)
        finally:
            _remove_unused(folder, [*old, *new], {MODEL, target.suffix})


def refers_to(model: Path, name: str) -> bool:
    """Return True if an ONNX file has external data of this name, in protobuf's encoding of that entry."""
    value = os.fsencode(name)
    entry = b"\x0a\x08location\x12" + _varint(len(value)) + value
    try:
        with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(entry) >= 0
    except (OSError, ValueError):  # ValueError: an empty file
        return False


def _data_of(target: Path) -> list[str]:
    """The files of weights, named as this project names them, that the model at `target` refers to."""
    begun = _begun(target.name)
    names = [each.name for each in _files(target.parent) if each.name.startswith(begun)]
    found = [name for name in names if _DATA.fullmatch(name[len(begun) :]) or name == f"{target.name}.data"]
    return [name for name in found if refers_to(target, name)]


def _remove_unused(folder: Path, names: Iterable[str], suffixes: Collection[str]) -> None:
    """Remove files of weights that no model in the folder refers to, a copy under another name for example."""
    wanted = [name for name in dict.fromkeys(names) if (folder / name).is_file()]
    models = [each for each in _files(folder) if each.suffix in suffixes] if wanted else []
    for name in wanted:
        path = folder / name
        if not any(refers_to(each, name) for each in models):
            with suppress(OSError):  # of another user, or open on Windows: it is in nobody's way
                path.unlink()


def _left_by(dead: Path) -> list[str]:
    """Return the names of files that the process that made a draft folder may have left beside it."""
    try:
        names = json.loads((dead / _LEFT).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # it did not come so far, or it is none of ours
        return []
    held = names if isinstance(names, list) else []
    return [name for name in held if isinstance(name, str) and _OURS.fullmatch(name)]


def _files(folder: Path) -> list[Path]:
    """The files in a folder; not what cannot be looked at, such as links that lead to themselves."""
    return [each for each in folder.iterdir() if os.path.isfile(each)]


def _begun(name: str) -> str:
    """A file's name, cut to what leaves space for an ending."""
    room = LONGEST_NAME - len(f".{'0' * HASH}.data")
    return os.fsencode(name)[:room].decode(errors="ignore")


def _varint(number: int) -> bytes:
    low, high = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(high) if high else bytes([low])
