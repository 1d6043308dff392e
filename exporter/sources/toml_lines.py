"""Lines of keys in a TOML file: tomllib tells values only."""

from __future__ import annotations

import re

Path = tuple[str | int, ...]
"""Keys of tables and indices of arrays of tables: ("model", 2, "opset")."""

_ARRAY = re.compile(r"^\s*\[\[\s*(?P<path>[^\]]+?)\s*\]\]")
_TABLE = re.compile(r"^\s*\[\s*(?P<path>[^\[\]]+?)\s*\]")
_KEY = re.compile(r"""^\s*(?P<path>(?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def line_of(text: str, where: Path) -> int:
    """The line of the key at `where`, or of the nearest table or key around it; 1 where there is none.

    A key in an inline table is at the line of the key that the table belongs to.
    """
    depth, found = 0, 1
    table: Path = ()
    counts: dict[Path, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _ARRAY.match(line):
            path = _indexed(_parts(match["path"]), counts)
            counts[path] = counts.get(path, -1) + 1
            at = table = (*path, counts[path])
        elif match := _TABLE.match(line):
            at = table = _indexed(_parts(match["path"]), counts)
        elif match := _KEY.match(line):
            at = (*table, *_parts(match["path"]))
        else:
            continue
        at = at[: len(where)]  # of an array, or of a table that has no line of its own: the first part
        if len(at) > depth and at == where[: len(at)]:
            depth, found = len(at), number
    return found


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def _indexed(parts: tuple[str, ...], counts: dict[Path, int]) -> Path:
    """`[model.budget]` belongs to the last `[[model]]`: its path is ("model", 2, "budget")."""
    path: Path = ()
    for part in parts[:-1]:
        path = (*path, part)
        if path in counts:
            path = (*path, counts[path])
    return (*path, *parts[-1:])
