"""Files by the name that others know them by: relative to the repository's root, as a URI; and writing them whole."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from fxport.diagnostics.drafts import PREFIX, draft_folder, put, sync_file, sync_folder


def project_path(path: str) -> str:
    """The path relative to its repository's root (else to the working folder), with forward slashes."""
    absolute = Path(path).absolute()
    return relative_to(absolute, git_root(str(absolute.parent)) or Path.cwd()) or absolute.name


def root_for(paths: Sequence[str]) -> Path:
    """The root that the URIs of a run are relative to.

    It is the repository of the working folder if any of the files is in it, else that of the first file; where there is
    no repository, the working folder, or the folder of the first file.
    """
    files = [Path(path).absolute() for path in paths if not path.startswith("<")]
    home = git_root(str(Path.cwd()))
    if home and (not files or any(relative_to(file, home) for file in files)):
        return home
    if files and (root := git_root(str(files[0].parent))):
        return root
    here = Path.cwd()
    return here if not files or any(relative_to(file, here) for file in files) else files[0].parent


def relative_to(path: Path, root: Path) -> str | None:
    """The path below `root` with forward slashes; None if it is not below."""
    try:
        return path.relative_to(root).as_posix()
    except ValueError:
        return None


def uri_of(path: str, root: Path) -> tuple[str, bool]:
    """A percent-encoded URI and whether it is relative to `root`. A cell of a notebook keeps its name."""
    if path.startswith("<"):
        return quoted(path), True
    absolute = Path(os.path.normpath(Path(path).absolute()))
    relative = relative_to(absolute, root)
    if relative is not None:
        return quoted(relative), True
    return "file://" + ("" if absolute.as_posix().startswith("/") else "/") + quoted(absolute.as_posix()), False


def quoted(path: str) -> str:
    """Percent-encoded, byte by byte: a file system may also hold names that are not UTF-8."""
    try:
        data = os.fsencode(path)
    except UnicodeEncodeError:
        data = path.encode("utf-8", "backslashreplace")
    return quote(data, safe="/~")


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write text or bytes so that the file is never seen half. Makes the folder where there is none. Raises OSError."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(target) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)
    return target


_OF_RUST = re.compile(r"\(os error (\d+)\)")
"""An error of the system in the text of one that a library in Rust raises, such as safetensors."""


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """A temporary path beside `target`, to be written in the block; at its end the file takes the place of `target`.

    Where the block raises, nothing is left of it, and `target` is what it was; of a killed process, the next call
    removes what is left. A link stays one, and what it points to is written; so is a device or a pipe, which no file
    may take the place of. Modes are kept. Raises OSError, which names `target`.
    """
    target = Path(os.path.realpath(target))
    with errors_naming(target):
        if is_special(target):
            yield target
            return
        with draft_folder(target.parent) as folder:
            draft = folder / f"draft{target.suffix}"
            yield draft
            sync_file(draft)  # on the disk before the name is: else a lost machine leaves an empty file
            put(draft, target)
            sync_folder(target.parent)


@contextmanager
def errors_naming(target: Path) -> Iterator[None]:
    """Raise errors of the system in the block as OSError that names `target`, where they name no file, or a draft."""
    try:
        yield
    except OSError as error:
        if error.filename is None or PREFIX in str(error.filename):  # a full disk names no file
            error.filename = str(target)
        raise
    except Exception as error:
        if (found := _OF_RUST.search(str(error))) is None:
            raise
        raise OSError(int(found[1]), os.strerror(int(found[1])), str(target)) from error


def is_special(path: Path) -> bool:
    """Return True if a path is neither a file nor a folder, but a device or a pipe."""
    return path.exists() and not path.is_file() and not path.is_dir()


@lru_cache(maxsize=4096)
def git_root(folder: str) -> Path | None:
    """The nearest folder upward that holds `.git`."""
    start = Path(folder)
    return next((candidate for candidate in (start, *start.parents) if (candidate / ".git").exists()), None)


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """Return a file's inode, modification time and size, which change on a write; None where there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
