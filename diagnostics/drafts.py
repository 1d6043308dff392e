"""Write files out of sight and put them in place at once; remove what killed processes left behind.

A draft folder lies beside its target, so that a rename suffices, and has an unpredictable name and mode 700. Its owner
holds a lock on a file in it, which the system releases when the process ends in any manner: an unlocked draft folder is
that of a dead process. Unlike a process id, this also holds for containers that share a folder.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = ".fxport-"
DRAFT = ".draft"
"""Suffix of draft folders that hold nothing but drafts."""

HELD = "lock"
"""Name of the locked file in a draft folder."""

COMMIT = ".fxport-lock"
"""Name of the file that is locked, and then removed, while files take their places in its folder."""

PATIENCE = 60.0
"""Seconds to wait for another process that puts files in place, which takes milliseconds."""

CANNOT_SYNC = frozenset(
    (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF, errno.EISDIR, errno.EACCES, errno.EPERM)
)
"""Errors of systems that sync no folders, and of folders that may be written to, but not read."""

_POLL = 0.005  # seconds


@contextmanager
def draft_folder(parent: Path, suffix: str = DRAFT) -> Iterator[Path]:
    """Make a draft folder in `parent`, and remove it with all that is left in it at the end of the block.

    Draft folders of dead processes with the suffix `DRAFT` are removed first. Raises OSError.
    """
    for dead in dead_drafts(parent, DRAFT):
        shutil.rmtree(dead, ignore_errors=True)
    folder, lock = _made(parent, suffix)
    try:
        yield folder
    finally:
        os.close(lock)  # Windows removes no open file
        shutil.rmtree(folder, ignore_errors=True)  # what cannot be removed now is removed by the next save


def dead_drafts(parent: Path, suffix: str) -> Iterator[Path]:
    """Yield the draft folders of this user's dead processes in `parent`."""
    try:
        with os.scandir(parent) as entries:
            names = [each.name for each in entries if each.name.startswith(PREFIX) and each.name.endswith(suffix)]
    except OSError:  # a folder that may be written to, but not listed
        return
    for name in names:
        folder = parent / name
        if _is_own_folder(folder):
            with _taken_over(folder) as dead:
                if dead:
                    yield folder


@contextmanager
def committing(folder: Path) -> Iterator[None]:
    """Keep other processes that use this from putting files in place in `folder` during the block.

    Where the file system has no locks, there is none. Raises TimeoutError where another process does not end.
    """
    lock = _locked(folder / COMMIT)
    try:
        yield
    finally:
        if lock is not None:
            with suppress(OSError):  # another user's, left in a folder in which one removes only one's own
                os.unlink(folder / COMMIT)
            os.close(lock)


def sync_file(path: Path) -> None:
    """Have the content of a file on the disk, and not only in the system's memory. Raises OSError."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk. Windows and some network file systems do that by themselves.

    Raises OSError where the disk fails or is full, but not where folders cannot be synced, or not be opened for that.
    """
    try:
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    except OSError as error:
        if error.errno not in CANNOT_SYNC:
            error.filename = error.filename or str(folder)
            raise


def put(draft: Path, target: Path, mode_of: Path | None = None) -> None:
    """Rename a synced draft to `target`. It gets the mode of what it replaces, else that of `mode_of` if there is such.

    Raises OSError.
    """
    old = next((path for path in (target, mode_of) if path is not None and path.exists()), None)
    if old is not None:
        shutil.copymode(old, draft)
    os.replace(draft, target)


def _made(parent: Path, suffix: str) -> tuple[Path, int]:
    """A new draft folder and the descriptor of its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, suffix=suffix, dir=parent))
        with suppress(FileNotFoundError):  # removed before it had a lock, as one without an owner
            lock = os.open(folder / HELD, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            if _try_lock(lock) is not False and _is_at(lock, folder / HELD):
                return folder, lock
            os.close(lock)


def _is_own_folder(folder: Path) -> bool:
    """Return True if this is a folder, not a symbolic link to one, that belongs to the current user."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    mine = sys.platform == "win32" or found.st_uid == os.getuid()
    return mine and not folder.is_symlink() and folder.is_dir()


@contextmanager
def _taken_over(folder: Path) -> Iterator[bool]:
    """Yield True if no process holds the lock of a draft folder; none can take it during the block either."""
    try:
        lock = os.open(folder / HELD, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        yield _has_lost_its_lock(folder)
        return
    except OSError:
        yield False
        return
    dead = _try_lock(lock) is True
    if sys.platform == "win32":  # which removes no open file
        os.close(lock)
        yield dead
        return
    try:
        yield dead
    finally:
        os.close(lock)


def _has_lost_its_lock(folder: Path) -> bool:
    """Return True if a draft folder has lost its lock file, so that its removal had begun; remove it if it is empty.

    If its owner was about to make the lock, it makes another folder.
    """
    try:
        names = os.listdir(folder)
        if not names:
            folder.rmdir()
    except OSError:
        return False
    return bool(names) and HELD not in names


def _locked(path: Path) -> int | None:
    """The descriptor of a locked file; None where there are no locks."""
    ends = time.monotonic() + PATIENCE
    while True:
        lock = _opened(path)
        if lock is not None:
            got = _try_lock(lock)
            if got and _is_at(lock, path):
                return lock
            os.close(lock)
            if got is None:
                return None
        if time.monotonic() > ends:
            raise TimeoutError(f"another process has been writing into '{path.parent}' for {PATIENCE:g} seconds")
        time.sleep(_POLL)


def _opened(path: Path) -> int | None:
    """A lock file, made where there is none; None where it has just been removed.

    O_CREAT alone would fail for another user's file in a folder for all (fs.protected_regular of Linux).
    """
    safe = getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | safe, 0o666)
    except FileExistsError:
        pass
    try:
        return os.open(path, os.O_RDWR | safe)
    except FileNotFoundError:
        return None
    except PermissionError:
        if sys.platform == "win32":  # it is being removed
            return None
        return os.open(path, os.O_RDONLY | safe)


def _is_at(lock: int, path: Path) -> bool:
    """Return True if a path still names the open file."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _try_lock(lock: int) -> bool | None:
    """Lock an open file; False if another process has it, None where there are no locks."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(lock, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return None
    return True
