"""Put a model and its file of weights in place as one thing, and remove what no model refers to any more."""

from __future__ import annotations

import json
import mmap
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fxport.diagnostics.drafts import committing, dead_drafts, draft_folder, put, sync_file, sync_folder
from fxport.diagnostics.paths import errors_naming, written_whole

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


SAVED = "fxport.save"
"""Key of a model's metadata: the number of the save that companions of it belong to, 16 hexadecimal digits."""

COMPANIONS = (".state.safetensors", ".evaluate.onnx")
"""Endings of the companions of a model, behind its name without a suffix."""

_STAGED = re.compile(rf"(?P<stem>.+)\.(?P<save>[0-9a-f]{{{HASH}}})(?P<ending>{'|'.join(map(re.escape, COMPANIONS))})")


@dataclass(frozen=True, slots=True)
class Companion:
    """A file that belongs to one save of a model, such as the state that a training step begins with.

    Until that model is in place it lies beside it under a name with the number of the save, and then under its own.

    Attributes:
        draft: Where it is written.
        name: Its name.
        save: The number of the save, which the metadata of the model has.
    """

    draft: Path
    name: str
    save: str

    @property
    def staged(self) -> str:
        """Its name until the model is in place."""
        ending = next(each for each in COMPANIONS if self.name.endswith(each))
        return f"{self.name.removesuffix(ending)}.{self.save}{ending}"


def data_name(name: str, digest: str) -> str:
    """The name of the file of weights beside a model of this name, given the hexadecimal hash of its content."""
    ending = f".{digest[:HASH]}.data"
    return _begun(name) + ending


@contextmanager
def saving(target: Path) -> Iterator[Path]:
    """Give a draft folder for a model at `target`, once what dead processes left is removed. Raises OSError.

    The error names `target` where it names no file, or a draft.
    """
    with errors_naming(target):
        with committing(target.parent):
            for dead in dead_drafts(target.parent, SAVE):
                _clean(target.parent, _left_by(dead), {MODEL, target.suffix})
                shutil.rmtree(dead, ignore_errors=True)
        with draft_folder(target.parent, SAVE) as folder:
            yield folder


def put_in_place(target: Path, draft: Path, data: Sequence[Path] = (), companions: Sequence[Companion] = ()) -> None:
    """Give a complete draft of a model the place of `target`, and its files of weights and companions one beside it.

    The model is renamed last: it refers to its weights by a name, and to its companions by the number of the save.
    Then companions get their own names, and the weights of the model that was there are removed, unless a model in the
    folder refers to them. One process at a time does this in a folder. Raises OSError; then `target` is what it was,
    or the new model where the disk fails when its name is to be synced.
    """
    folder = target.parent
    for each in (*data, *(each.draft for each in companions), draft):
        sync_file(each)
    with committing(folder):
        replaced = (target, *(folder / each.name for each in companions))
        names = [name for each in replaced for name in _data_of(each)]
        names += [*(each.name for each in data), *(each.staged for each in companions)]
        (draft.parent / _LEFT).write_text(json.dumps(names), encoding="utf-8")
        try:
            for each in data:
                put(each, folder / each.name, mode_of=target)
            for companion in companions:
                put(companion.draft, folder / companion.staged, mode_of=folder / companion.name)
            sync_folder(folder)  # their names are on the disk before that of the model
            put(draft, target)
            sync_folder(folder)
        finally:
            _clean(folder, names, {MODEL, target.suffix})


def save_of(model: Path) -> str | None:
    """The number of the save in the metadata of an ONNX file, in protobuf's encoding of that entry; None without."""
    key = SAVED.encode()
    entry = b"\x0a" + _varint(len(key)) + key + b"\x12" + _varint(HASH)
    try:
        with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            at = content.rfind(entry)
            return None if at < 0 else content[at + len(entry) : at + len(entry) + HASH].decode("ascii", "replace")
    except (OSError, ValueError):  # ValueError: an empty file
        return None


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


def _clean(folder: Path, names: Sequence[str], suffixes: Collection[str]) -> None:
    """Give companions of models that are in place their own names, and remove files that no model refers to."""
    for name in names:
        if (found := _STAGED.fullmatch(name)) and (folder / name).is_file():
            models = [folder / f"{found['stem']}{suffix}" for suffix in suffixes]
            if any(save_of(each) == found["save"] for each in models):
                _take_name(folder / name, folder / f"{found['stem']}{found['ending']}")
            else:
                with suppress(OSError):  # of another user: it is in nobody's way
                    (folder / name).unlink()
    _remove_unused(folder, [name for name in names if not _STAGED.fullmatch(name)], suffixes)


def _take_name(staged: Path, path: Path) -> None:
    """Rename a companion; where a link has its name, what that points to is written."""
    if path.is_symlink():
        with written_whole(path) as draft:
            shutil.copyfile(staged, draft)
        staged.unlink()
    else:
        os.replace(staged, path)


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
    return [name for name in held if isinstance(name, str) and (_OURS.fullmatch(name) or _is_staged(name))]


def _is_staged(name: str) -> bool:
    return Path(name).name == name and _STAGED.fullmatch(name) is not None


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
