"""Definition of SOURCE, found by reading and not by running: the place of findings that have no better one."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from fxport.diagnostics import Finding, Level, Place
from fxport.diagnostics.limits import SOURCE, read_bounded
from fxport.diagnostics.source import resolve


def definition_of(source: str) -> Place | None:
    """The line of the class, function or assignment that SOURCE names; line 1 where it is not found in its file."""
    if source.endswith(".pt2"):
        return Place(source, 1)
    where, _, name = source.rpartition(":")
    path = where if where.endswith(".py") else getattr(sys.modules.get(where), "__file__", None)
    if path is None:
        return None
    return Place(str(Path(path).resolve()), line_of(Path(path), name.partition(".")[0]))


def placed(findings: Sequence[Finding], source: str) -> Sequence[Finding]:
    """Put errors and warnings without a place at the definition of SOURCE, if it is in Python: for `Log.revise`."""
    where = definition_of(source)
    if where is None or not where.path.endswith(".py"):
        return findings
    at = resolve(where)
    unplaced = [each.place is None and each.level is not Level.NOTE for each in findings]
    return [replace(each, place=at) if lost else each for each, lost in zip(findings, unplaced, strict=True)]


def line_of(path: Path, name: str) -> int:
    """The line at which a top-level name gets its value; 1 where that cannot be read."""
    if not path.is_file():  # opening a pipe waits for who writes to it
        return 1
    try:
        return lines_of(read_bounded(path, SOURCE)).get(name, 1)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # ValueError: null bytes, or too large
        return 1


@lru_cache(maxsize=16)
def lines_of(text: bytes) -> Mapping[str, int]:
    """The first line of each top-level name. Kept, because `fxport check` asks for every model of a file."""
    lines: dict[str, int] = {}
    for statement in ast.parse(text).body:
        for name in names_of(statement):
            lines.setdefault(name, statement.lineno)
    return lines


def names_of(statement: ast.stmt) -> set[str]:
    """The names that a statement binds."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef):
        return {statement.name}
    if isinstance(statement, ast.Assign):
        return {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return set()
