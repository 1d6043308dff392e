"""What a hostile input is: files in a folder of its own, a command line, and the sentence that must come."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

SECRET = "the-secret-of-another-folder"
"""Content of the files outside of the project; it must appear in no output."""

RAN = "ran"
"""Name of the file that hostile code leaves behind in the project where it is run."""

REFUSED = frozenset((1, 2))

Make = Callable[[Path], object]
"""Writes the files of a case into the project, an empty folder but for `net.py`."""


@dataclass(frozen=True, slots=True)
class Case:
    """One hostile input. Exit code 0 is right only where all of it is read as data and nothing has to be refused."""

    name: str
    make: Make
    command: Sequence[str]
    codes: frozenset[int] = REFUSED


class Code:
    """Unpickled, it leaves a file behind."""

    def __reduce__(self) -> tuple[object, ...]:
        return open, (RAN, "w")


def code_pickle() -> bytes:
    return pickle.dumps({"weight": Code()})


def writes(name: str, content: str | bytes) -> Make:
    def make(project: Path) -> None:
        (project / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return make


def sparse(name: str, size: int, start: bytes = b"") -> Make:
    """A file of zeros after its start, which takes no space on the disk."""

    def make(project: Path) -> None:
        with (project / name).open("wb") as file:
            file.write(start)
            file.truncate(size)

    return make


def archive(name: str, entries: dict[str, bytes], zeros: dict[str, int] | None = None) -> Make:
    """A zip file; `zeros` are entries of so many zeros, compressed."""

    def make(project: Path) -> None:
        with zipfile.ZipFile(project / name, "w", zipfile.ZIP_DEFLATED) as made:
            for entry, content in entries.items():
                made.writestr(entry, content)
            for entry, count in (zeros or {}).items():
                with made.open(entry, "w", force_zip64=True) as file:
                    for _ in range(count >> 20):
                        file.write(bytes(1 << 20))

    return make


def in_memory(save: Callable[[io.BytesIO], object]) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()
