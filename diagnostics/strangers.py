"""Places that a file names: an ONNX model's metadata or a SARIF log may name any file of this machine.

Such a file is read, to show its lines, only if it is Python source, or a manifest, of the project that this process
works in, or source that this process has loaded. Of all others only the name is shown, as "<name>", which no part of
this project takes for a path.
"""

from __future__ import annotations

import linecache
import os
import stat
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from fxport.diagnostics.limits import SOURCE
from fxport.diagnostics.model import Finding, Frame, Place
from fxport.diagnostics.paths import git_root

SOURCES = frozenset({".py", ".pyi"})
MANIFESTS = frozenset({"fxport.toml", "pyproject.toml"})


def shown_path(path: str) -> str:
    """Return a path that a file names if it may be read, and else its name alone, in angle brackets."""
    if path.startswith("<") or path in linecache.cache or _may_be_read(path):
        return path
    return f"<{path.replace(chr(92), '/').rstrip('/').rpartition('/')[2]}>"


def without_strangers(finding: Finding) -> Finding:
    """Return a finding of a file with the places that may be read, and the names alone of all others.

    Edits of files that may not be read are left out; what they are for is still told.
    """
    known = {path: shown_path(path) for path in _paths_of(finding)}

    def shown(place: Place) -> Place:
        stack = tuple(Frame(known[frame.path], frame.line, frame.function) for frame in place.stack)
        return replace(place, path=known[place.path], stack=stack)

    return replace(
        finding,
        place=shown(finding.place) if finding.place else None,
        related=tuple(map(shown, finding.related)),
        steps=tuple(replace(step, place=shown(step.place)) for step in finding.steps),
        fixes=tuple(
            replace(fix, edits=() if any(known[edit.path] != edit.path for edit in fix.edits) else fix.edits)
            for fix in finding.fixes
        ),
    )


def _paths_of(finding: Finding) -> set[str]:
    places: Sequence[Place] = [
        *([finding.place] if finding.place else ()),
        *finding.related,
        *(step.place for step in finding.steps),
    ]
    frames = {frame.path for place in places for frame in place.stack}
    return {place.path for place in places} | frames | {edit.path for fix in finding.fixes for edit in fix.edits}


def _may_be_read(path: str) -> bool:
    try:
        real = Path(os.path.realpath(path))
        found = real.stat() if real.exists() else None  # then there is nothing to read
    except (OSError, ValueError):  # ValueError: a null character, or what is no text
        return False
    if found is not None and (not stat.S_ISREG(found.st_mode) or found.st_size > (SOURCE.bytes or 0)):
        return False
    if real.suffix not in SOURCES and real.name not in MANIFESTS:
        return False
    return _is_of_this_project(real) or str(real) in _loaded(len(sys.modules))


def _is_of_this_project(real: Path) -> bool:
    here = Path.cwd()
    root = Path(os.path.realpath(git_root(str(here)) or here))
    return root != root.parent and real.is_relative_to(root)


@cache
def _loaded(_count: int) -> frozenset[str]:
    """The files of the modules that this process has loaded; `_count` is their number."""
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return frozenset(os.path.realpath(file) for file in files if isinstance(file, str))


def link_out_of(folder: Path, names: Collection[str] | None = None) -> Path | None:
    """Return a file of a folder that is a link out of it, so that it would read a file for its author; else None.

    `names` are those of the files that will be read; all by default. In Hugging Face's cache, files of
    `snapshots/<revision>` are links to `blobs` beside `snapshots`, which are none of these.
    """
    home = Path(os.path.realpath(folder))
    homes = [home, *([home.parent.parent / "blobs"] if home.parent.name == "snapshots" else [])]
    for link in sorted(each for each in home.iterdir() if each.is_symlink() and each.is_file()):
        real = Path(os.path.realpath(link))
        if (names is None or link.name in names) and not any(real.is_relative_to(each) for each in homes):
            return folder / link.name
    return None
