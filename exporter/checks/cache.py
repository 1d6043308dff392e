"""Results of earlier runs, by content: an item, the versions of all that is installed, the files it was made from."""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from fxport.diagnostics.own import own_folders
from fxport.diagnostics.paths import write_whole
from fxport.exporter.checks.items import Item

VERSION = 1
DRIVER = Path("/proc/driver/nvidia/version")  # what "auto" means depends on it

Result = dict[str, Any]  # Any: JSON


@dataclass(frozen=True, slots=True)
class Stamp:
    """A file as it was read: a size and a time that are the same need no second look at its content."""

    size: int
    modified: int
    digest: str


@dataclass(frozen=True, slots=True)
class Cache:
    """One JSON file for each item in `folder`. `project` is the folder that items' patterns are relative to."""

    folder: Path
    project: Path
    environment: str

    def get(self, item: Item) -> Result | None:
        """The result of the same item made from the same content; None if there is none, or it cannot be read."""
        try:
            held = json.loads(self._file(item).read_text(encoding="utf-8"))
            known = {path: Stamp(*stamp) for path, stamp in held["files"].items()}
            same = held["version"] == VERSION and held["environment"] == self.environment
            depends, result = held["depends"], held["result"]
            if not same or depends != self._matches(item):
                return None
            return result if all(unchanged(Path(path), known[path]) for path in known) else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def put(self, item: Item, result: Result) -> None:
        """Keep a result with stamps of the files that it names. Raises OSError where it cannot be written."""
        depends = self._matches(item)
        files = {path: stamp for path in (*result["files"], *depends) if (stamp := stamp_of(Path(path))) is not None}
        stamps = {path: [stamp.size, stamp.modified, stamp.digest] for path, stamp in files.items()}
        held = {"version": VERSION, "environment": self.environment, "depends": depends, "files": stamps}
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._file(item), json.dumps(held | {"result": result}))

    def _file(self, item: Item) -> Path:
        key = hashlib.sha256(json.dumps(asdict(item), sort_keys=True).encode()).hexdigest()[:24]
        return self.folder / f"{item.id}-{key}.json"

    def _matches(self, item: Item) -> list[str]:
        """Files that the manifest says the model depends on."""
        found = (path for pattern in item.depends for path in self.project.glob(pattern))
        return sorted({str(path) for path in found if path.is_file()})


def environment() -> str:
    """A digest of what is installed here, and of our own sources, which may be a checkout at work."""
    # Their metadata as it is written: to parse it, just for a name and a version, takes most of a cached run.
    installed = {entry.read_text("METADATA") or entry.read_text("PKG-INFO") for entry in metadata.distributions()}
    versions = sorted(filter(None, installed))
    machine = [platform.python_version(), platform.machine(), platform.system(), read(DRIVER).decode(errors="replace")]
    digest = hashlib.sha256(json.dumps([versions, machine]).encode())
    for path in sorted({path for folder in own_folders() for path in folder.rglob("*.py")}):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def read(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def unchanged(path: Path, stamp: Stamp) -> bool:
    """Return True if a file still has the content of the stamp."""
    try:
        now = path.stat()
    except OSError:
        return False
    if (now.st_size, now.st_mtime_ns) == (stamp.size, stamp.modified):
        return True
    return now.st_size == stamp.size and digest_of(path) == stamp.digest


def stamp_of(path: Path) -> Stamp | None:
    """None for a file that is gone: it was a temporary one."""
    try:
        now = path.stat()
        return Stamp(now.st_size, now.st_mtime_ns, digest_of(path))
    except OSError:
        return None


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
