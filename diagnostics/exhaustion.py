"""Errors of the machine and its files: it has run out of something, or a file cannot be used. No fault of fxport's."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from fxport.diagnostics.messages import error_text
from fxport.diagnostics.own import own_folders

MEMORY, DISK, GPU = "memory", "space on the disk", "memory of the GPU"

ERRNOS: Mapping[int, str] = MappingProxyType(
    {
        errno.ENOSPC: DISK,
        errno.EDQUOT: "disk quota",
        errno.ENOMEM: MEMORY,
        errno.EMFILE: "open files for a process (ulimit -n)",
        errno.ENFILE: "open files",
        errno.EFBIG: "size for one file (ulimit -f)",
    }
)

# What PyTorch, ONNX Runtime and the system's loader say; the first that matches.
TEXTS = (
    (re.compile(r"CUDA out of memory|CUBLAS_STATUS_ALLOC_FAILED|CUDA error: out of memory"), GPU),
    (
        re.compile(r"can't allocate memory|[Cc]annot allocate memory|std::bad_alloc|failed to map segment"),
        MEMORY,
    ),
    (re.compile(r"No space left on device"), DISK),
    (re.compile(r"can't start new thread|Resource temporarily unavailable"), "threads or processes (ulimit -u)"),
)
NO_TEMPORARY = "No usable temporary directory"
_LINK_LOOP = re.compile(r"Symlink loop from (.+)")
_ASKED = re.compile(r"[Tt]ried to allocate (\S+ (?:bytes|[KMGT]i?B))")


def exhausted(error: BaseException) -> tuple[str, str] | None:
    """Return what the machine ran out of, and what was needed, as far as the error says it; None for other errors."""
    for each in _chain(error):
        resource = _resource(each)
        if resource is not None:
            asked = _ASKED.search(str(each))
            return resource, f"{asked[1]} were asked for at once" if asked else error_text(each)
    return None


def raise_if_exhausted(error: BaseException) -> None:
    """Raise an error by which the machine ran out of something: it says nothing about a model or a file."""
    if exhausted(error) is not None:
        raise error


def unusable(error: BaseException) -> str | None:
    """Return a sentence on the file or folder that an error of the system is about; None for other errors.

    An error about one of fxport's own files is a defect of its installation, and none of these.
    """
    if isinstance(error, RuntimeError) and (loop := _LINK_LOOP.match(str(error))):  # of Path.resolve before Python 3.13
        return f"{loop[1]} is a symbolic link that leads to itself; name another path, or remove it"
    if not isinstance(error, OSError):
        return None
    if NO_TEMPORARY in str(error):
        return "there is no folder for temporary files that can be written to; set TMPDIR to one"
    if error.filename is None and error.errno == errno.EIO:
        return f"a file or its disk cannot be read or written: {error.strerror}; name another"
    if error.filename is None:
        return None if _is_there(os.curdir) else "the working folder is gone; change to one that exists"
    path = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else str(error.filename)
    if any(Path(path).is_relative_to(folder) for folder in own_folders()):
        return None
    return f"'{path}' cannot be used: {error.strerror or error}; name another, or change its permissions"


def _is_there(folder: str) -> bool:
    try:
        os.stat(os.path.abspath(folder))
    except OSError:
        return False
    return True


def _resource(error: BaseException) -> str | None:
    if isinstance(error, MemoryError):
        return MEMORY
    if isinstance(error, OSError) and error.errno is not None and error.errno in ERRNOS:
        return ERRNOS[error.errno]
    if not isinstance(error, (OSError, RuntimeError, ImportError)):  # a user's text may quote anything
        return None
    text = str(error)
    return next((resource for pattern, resource in TEXTS if pattern.search(text)), None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    now: BaseException | None = error
    while now is not None and id(now) not in seen:
        seen.add(id(now))
        yield now
        now = now.__cause__ or now.__context__
