"""Repository and revision of the sources, read from `.git` without running git."""

from __future__ import annotations

import configparser
import re
from dataclasses import dataclass
from pathlib import Path

_SCP = re.compile(r"^(?:[\w.-]+@)?(?P<host>[\w.-]+):(?P<path>[^/].*)$")
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
        head = (folder / "HEAD").read_text(encoding="utf-8").strip()
    except (OSError, ValueError, configparser.Error):  # a worktree, a broken repository
        return None
    if address is None:
        return None
    branch = head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else None
    return Provenance(address, _commit(folder, head), branch)


def _origin(folder: Path) -> str | None:
    config = configparser.RawConfigParser(strict=False, allow_no_value=True)
    config.read_string((folder / "config").read_text(encoding="utf-8"))
    address = config.get('remote "origin"', "url", fallback=None)
    if not address:
        return None
    if "://" not in address and (match := _SCP.match(address)):
        address = f"https://{match['host']}/{match['path']}"
    address = _CREDENTIALS.sub("", address)
    return address if address.startswith(("https://", "http://", "ssh://")) else None


def _commit(folder: Path, head: str) -> str | None:
    if not head.startswith("ref: "):
        return head or None
    name = head.removeprefix("ref: ")
    try:
        return (folder / name).read_text(encoding="utf-8").strip()
    except OSError:
        return _packed(folder, name)


def _packed(folder: Path, name: str) -> str | None:
    try:
        lines = (folder / "packed-refs").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.split(" ")[0] for line in lines if line.endswith(f" {name}")), None)
