"""Write a folder out of sight and put it in place as a whole, where another one may be."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fxport.diagnostics.drafts import committing, dead_drafts, draft_folder, sync_file, sync_folder
from fxport.diagnostics.paths import errors_naming

FOLDER = ".folder"
"""Suffix of draft folders that may hold the folder that was replaced."""

NEW, OLD = "new", "old"
"""Names in a draft folder: of the new folder, and of that which holds the one that it replaces, under its own name."""

AT_WORKING_FOLDER, EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE of Linux and RENAME_SWAP of macOS
CANNOT = frozenset((errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM))
"""Errors of a kernel or a file system that cannot exchange two names."""


@contextmanager
def written_folder(target: Path) -> Iterator[Path]:
    """An empty folder, to be filled in the block; at its end it takes the place of `target`.

    Where the block raises, nothing is left of it. A killed process leaves `target` as it was, or whole and new; where
    the system cannot exchange two folders at once, the next call brings back the old one. A link stays one. Raises
    OSError.
    """
    target = Path(os.path.realpath(target))
    parent = target.parent
    with errors_naming(target):
        with committing(parent):
            for dead in dead_drafts(parent, FOLDER):
                _bring_back(dead)
                shutil.rmtree(dead, ignore_errors=True)
        with draft_folder(parent, FOLDER) as outer:
            draft = outer / NEW
            draft.mkdir()
            yield draft
            for path in (*draft.rglob("*"), draft):
                (sync_folder if path.is_dir() else sync_file)(path)
            draft.chmod(0o777 & ~_umask())
            with committing(parent):
                _put(draft, target)
                sync_folder(parent)


def exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders at once; False where the system cannot. Raises OSError."""
    names = os.fsencode(one), os.fsencode(other)
    if sys.platform == "win32":
        return False
    library = ctypes.CDLL(None, use_errno=True)
    if hasattr(library, "renameat2"):  # Linux
        failed = library.renameat2(AT_WORKING_FOLDER, names[0], AT_WORKING_FOLDER, names[1], EXCHANGE)
    elif hasattr(library, "renamex_np"):  # macOS
        failed = library.renamex_np(*names, EXCHANGE)
    else:
        return False
    if failed and (number := ctypes.get_errno()) not in CANNOT:
        raise OSError(number, os.strerror(number), str(other))
    return not failed


def _put(draft: Path, target: Path) -> None:
    if not target.exists():
        os.replace(draft, target)
    elif not exchange(draft, target):
        old = draft.parent / OLD / target.name
        old.parent.mkdir()
        os.replace(target, old)
        try:
            os.replace(draft, target)
        except OSError:
            os.replace(old, target)
            raise


def _bring_back(dead: Path) -> None:
    """Undo what a process did that ended between the two renames of a system that cannot exchange folders."""
    for old in (dead / OLD).glob("*"):
        target = dead.parent / old.name
        if not target.exists():
            os.replace(old, target)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
