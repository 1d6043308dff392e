"""The `except` clauses that stand around a running line: what they catch in PyTorch, no graph raises."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType
from typing import Any

from diagnostics.source import USER, kind_of, lines_of

ANY = (BaseException,)
"""What a clause catches that names nothing, or something that cannot be told."""


def is_caught(kind: type[BaseException], frames: Iterable[tuple[FrameType, int]]) -> bool:
    """Return whether the user's own code would catch an exception of a type.

    Args:
        kind: The type; what is raised may be of a subclass, so a clause for one counts as well.
        frames: The frames that run, each with its line.
    """
    own = ((frame, line) for frame, line in frames if kind_of(frame.f_code.co_filename) == USER)
    caught = (each for frame, line in own for each in _caught_at(frame, line))
    return any(issubclass(kind, each) or issubclass(each, kind) for each in caught)


def _caught_at(frame: FrameType, line: int) -> Iterator[type[BaseException]]:
    for each in _tries(frame.f_code.co_filename):
        if line in each.lines:
            for handler in each.handlers:
                yield from _named(handler, {**vars(builtins), **frame.f_globals, **frame.f_locals})


def _named(handler: ast.expr | None, names: dict[str, Any]) -> tuple[type[BaseException], ...]:
    """Return the types that the clause names."""
    if isinstance(handler, ast.Tuple):
        return tuple(each for element in handler.elts for each in _named(element, names))
    found = _value(handler, names)
    if isinstance(found, tuple) and all(isinstance(each, type) for each in found):
        return found
    return (found,) if isinstance(found, type) and issubclass(found, BaseException) else ANY


def _value(node: ast.expr | None, names: dict[str, Any]) -> Any:
    """Return what a name or an attribute stands for; None for anything else."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    return getattr(_value(node.value, names), node.attr, None) if isinstance(node, ast.Attribute) else None


@dataclass(frozen=True, slots=True)
class _Try:
    """A `try` statement: the lines of its body, without those of functions in it, and what its clauses name."""

    lines: frozenset[int]
    handlers: tuple[ast.expr | None, ...]


@lru_cache(maxsize=256)
def _tries(path: str) -> tuple[_Try, ...]:
    """Return the `try` statements of a file that have an `except` clause; none where it cannot be read."""
    try:
        tree = ast.parse("".join(lines_of(path)))
    except SyntaxError:
        return ()
    found = (node for node in ast.walk(tree) if isinstance(node, (ast.Try, ast.TryStar)) and node.handlers)
    return tuple(_Try(_lines(node.body), tuple(each.type for each in node.handlers)) for node in found)


def _lines(body: Sequence[ast.stmt]) -> frozenset[int]:
    nodes = (node for each in body for node in ast.walk(each))
    inner = (node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    own = set(range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1))
    return frozenset(own.difference(*(range(each.lineno + 1, (each.end_lineno or each.lineno) + 1) for each in inner)))
