"""Errors that say the machine has run out of something: neither the model's fault nor fxport's."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from fxport.diagnostics.messages import error_text

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
    (re.compile(r"can't allocate memory|[Cc]annot allocate memory|std::bad_alloc|failed to map segment"), MEMORY),
    (re.compile(r"No space left on device"), DISK),
    (re.compile(r"can't start new thread|Resource temporarily unavailable"), "threads or processes (ulimit -u)"),
)
_ASKED = re.compile(r"[Tt]ried to allocate (\S+ (?:bytes|[KMGT]i?B))")


def exhausted(error: BaseException) -> tuple[str, str] | None:
    """Return what the machine ran out of, and what was needed, as far as the error says it; None for other errors."""
    for each in _chain(error):
        resource = _resource(each)
        if resource is not None:
            asked = _ASKED.search(str(each))
            return resource, f"{asked[1]} were asked for at once" if asked else error_text(each)
    return None


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
