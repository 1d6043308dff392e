"""The top-level definitions of a Python file: which of them a name leads to, by reading and not by running."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import lru_cache

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Statement = Definition | ast.Assign | ast.AnnAssign
"""Statements that bind names. One that binds none, such as `CONFIG.size = 3`, belongs to every model."""


@lru_cache(maxsize=32)
def definitions_of(text: str) -> Mapping[str, range]:
    """The lines of each top-level class and function by its name, decorators included; none where it is not Python."""
    tree = _parsed(text)
    found = {} if tree is None else {node.name: _lines(node) for node in tree.body if isinstance(node, Definition)}
    return dict(found)


@lru_cache(maxsize=32)
def reached_from(text: str, name: str) -> frozenset[str]:
    """The top-level names that `name` leads to, itself included: those that its statements speak of, and so on.

    All names where the file has no top-level `name`: then it cannot be told what is left out.
    """
    tree = _parsed(text)
    uses: dict[str, set[str]] = {}
    for statement in tree.body if tree else ():
        spoken = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        for bound in _bound(statement):
            uses.setdefault(bound, set()).update(spoken)
    if name not in uses:
        return frozenset(uses)
    found, waiting = set[str](), [name]
    while waiting:
        here = waiting.pop()
        if here in uses and here not in found:
            found.add(here)
            waiting += uses[here]
    return frozenset(found)


def foreign_lines(text: str, name: str) -> Sequence[range]:
    """The lines of the top-level classes, functions and assignments that `name` does not lead to."""
    reached, tree = reached_from(text, name), _parsed(text)
    return [
        _lines(statement)
        for statement in (tree.body if tree else ())
        if isinstance(statement, Statement) and (bound := _bound(statement)) and not reached & bound
    ]


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement binds at the top level, also within an `if` or a `try` there."""
    if isinstance(statement, Definition):
        return {statement.name}
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _lines(node: Statement) -> range:
    first = min((each.lineno for each in getattr(node, "decorator_list", ())), default=node.lineno)
    return range(first, (node.end_lineno or node.lineno) + 1)


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
