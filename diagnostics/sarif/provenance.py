"""Repository and revision of the sources, read from `.git` without running git."""

from __future__ import annotations

import configparser
import re
from dataclasses import dataclass
from pathlib import Path

from fxport.diagnostics.limits import GIT, read_bounded

_SCP = re.compile(r"^(?:[\w.-]+@)?(?P<host>[\w.-]+):(?P<path>[^/].*)$")
_REF = re.compile(r"refs/[\w./+@-]+")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_CREDENTIALS = re.compile(r"(?<=://)[^/@]+@")


@dataclass(frozen=True, slots=True)
class Provenance:
    """A repository's address without credentials, its commit, and its branch unless detached."""

    repository: str
    revision: str | None
    branch: str | None


def provenance_of(root: Path) -> Provenance | None:
    """None if `root` is not a repository with a remote that others could reach."""
    folder = root / ".git"
    try:
        address = _origin(folder)
        head = _text_of(folder / "HEAD")
        commit = None if address is None else _commit(folder, head)
    except (OSError, ValueError, configparser.Error, AttributeError):  # a worktree, a broken repository
        return None
    if address is None:
        return None
    branch = head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else None
    return Provenance(address, commit, branch)


def _text_of(path: Path) -> str:
    """A small file. Raises OSError or ValueError for what is none, such as a pipe."""
    return read_bounded(path, GIT).decode().strip()


def _origin(folder: Path) -> str | None:
    config = configparser.RawConfigParser(strict=False, allow_no_value=True)
    config.read_string(_text_of(folder / "config"))
    address = config.get('remote "origin"', "url", fallback=None)
    if not address:
        return None
    if "://" not in address and (match := _SCP.match(address)):
        address = f"https://{match['host']}/{match['path']}"
    address = _CREDENTIALS.sub("", address)
    return address if address.startswith(("https://", "http://", "ssh://")) else None


def _commit(folder: Path, head: str) -> str | None:
    """The commit of a head: only what looks like one, of a file whose name is that of a branch or a tag."""
    name = head.removeprefix("ref: ")
    if name == head:
        return _commit_in(head)
    if not _REF.fullmatch(name) or ".." in name:
        return None
    try:
        return _commit_in(_text_of(folder / name))
    except OSError:
        return _packed(folder, name)


def _commit_in(text: str) -> str | None:
    return text if _COMMIT.fullmatch(text) else None


def _packed(folder: Path, name: str) -> str | None:
    try:
        lines = _text_of(folder / "packed-refs").splitlines()
    except OSError:
        return None
    found = next((line.split(" ")[0] for line in lines if line.endswith(f" {name}")), "")
    return _commit_in(found)
