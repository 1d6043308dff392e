"""Output paths: refused before the work begins, not after it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fxport.diagnostics.messages import error_line
from fxport.diagnostics.paths import is_special
from fxport.exporter.sources.usage import UsageError


def file_path(text: str) -> Path:
    """Return the path of a file that is to be written. Raises UsageError for one that ends as a folder's does."""
    if text.endswith(("/", os.sep)):
        raise UsageError(f"'{text}' names a folder; name a file in it, such as '{text}model.onnx'.")
    return Path(text)


def require_folder(path: Path, option: str, file: Path | None = None) -> None:
    """Refuse a path at which no folder is and none can be made. `file` is what is to be written there, if one file."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{option} '{path}' is a file; name a folder.")
    if path.is_symlink() and not path.exists():
        raise UsageError(f"{option} '{path}' is a link to what does not exist; name another, or remove it.")
    above = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    _require_room(above, file or path, option)


def require_file(path: Path, option: str) -> None:
    """Refuse a path at which no file can be written, also after its folder is made. A device, or a pipe, will do."""
    if path.is_dir():
        raise UsageError(f"{option} '{path}' is a directory; name a file in it.")
    if not is_special(path):
        require_folder(path.parent, option, path)


def require_apart(paths: Mapping[str, Path]) -> None:
    """Refuse two files of different meaning at the same path. The key says what each is."""
    seen: dict[Path, str] = {}
    for what, path in paths.items():
        other = seen.setdefault(path.resolve(), what)
        if other != what:
            raise UsageError(f"{what} '{path}' is the same file as {other}; name another.")


def require_writable(path: Path, option: str) -> None:
    """Refuse a path at which no file can be written, and a device or a pipe. Leaves nothing behind."""
    folder = path.parent
    if path.is_dir():
        raise UsageError(f"{option} '{path}' is a directory; name a file in it.")
    if is_special(path):
        raise UsageError(f"{option} '{path}' is no ordinary file; name one.")
    if not folder.is_dir():
        raise UsageError(f"{option} '{path}': there is no folder '{folder}'; make it, or name another.")
    _require_room(folder, path, option)


def _require_room(folder: Path, path: Path, option: str) -> None:
    """Refuse a path in a folder in which no file can be made."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(f"{option} '{path}' cannot be written: {error_line(error)}; name another place.") from error
