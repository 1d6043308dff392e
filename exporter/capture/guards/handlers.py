"""The `except` clauses that stand around a running line: what they catch in PyTorch, no graph raises."""

from __future__ import annotations

import ast
import builtins
import dis
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FrameType, FunctionType
from typing import Any

from fxport.diagnostics.source import USER, kind_of, lines_of

JUMPS = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.With, ast.AsyncWith, ast.Try, ast.TryStar)
"""Statements that may end a clause without an error."""

ENDS = (ast.Return, ast.Break, ast.Continue)
"""Statements that end a `finally`, and the error with it."""

LAMBDA = "<lambda>"
"""Name of the code of every lambda."""

ANY = (BaseException,)
"""The types that a clause is taken to catch if it names none, or something that cannot be evaluated."""


def catches(function: FunctionType) -> bool:
    """Return whether a function is the user's, in a file with statements that catch errors."""
    path = function.__code__.co_filename
    return kind_of(path) == USER and bool(_tries(path))


def handles(function: FunctionType) -> bool:
    """Return whether a function of the user's, or one within it, has a statement that catches errors and goes on."""
    path = function.__code__.co_filename
    if kind_of(path) != USER:
        return False
    lines, names = _lines_of_code(function.__code__), {**vars(builtins), **function.__globals__}
    handlers = (handler for each in _tries(path) if each.lines & lines for handler in each.handlers)
    return any(each.goes_on and (each.manager is None or _swallows(_value(each.manager, names))) for each in handlers)


def _lines_of_code(code: CodeType) -> set[int]:
    lines = {line for _, _, line in code.co_lines() if line is not None}
    return lines.union(*(_lines_of_code(each) for each in code.co_consts if isinstance(each, CodeType)))


def is_caught(kind: type[BaseException], frames: Iterable[tuple[FrameType, int]]) -> bool:
    """Return whether the user's own code would catch an exception of a type, and go on.

    Args:
        kind: The type; what is raised may be of a subclass, so a clause for one counts as well.
        frames: The frames that run, each with its line.
    """
    own = ((frame, line) for frame, line in frames if kind_of(frame.f_code.co_filename) == USER)
    around = [each for frame, line in own for each in _caught_at(frame, line)]
    met = [each for each in around if issubclass(kind, each[0]) or issubclass(each[0], kind)]
    return bool(met) and any(goes_on for _, goes_on in around)  # one that raises may raise what another one catches


def _caught_at(frame: FrameType, line: int) -> Iterator[tuple[type[BaseException], bool]]:
    """Yield what the clauses around a line catch, and whether the model goes on after it.

    None stands in a lambda: those around the line are of the function that makes it.
    """
    if frame.f_code.co_name == LAMBDA:
        return
    for each in _tries(frame.f_code.co_filename):
        if line in each.lines:
            for handler in each.handlers:
                names = {**vars(builtins), **frame.f_globals, **frame.f_locals}
                if handler.manager is not None and not _swallows(_value(handler.manager, names)):
                    continue
                for kind in _named(handler.named, names):
                    yield kind, handler.goes_on


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
class _Handler:
    """An `except` clause: its types as written, and whether it can end otherwise than by an error.

    Of a `with`, `manager` is what gives the context manager, which may end an error, too.
    """

    named: ast.expr | None
    goes_on: bool = True
    manager: ast.expr | None = None


@dataclass(frozen=True, slots=True)
class _Try:
    """A statement that catches errors: the lines of its body without inner functions, and its clauses."""

    lines: frozenset[int]
    handlers: tuple[_Handler, ...]


@lru_cache(maxsize=256)
def _tries(path: str) -> tuple[_Try, ...]:
    """Return the statements of a file that catch errors; none where it cannot be read."""
    try:
        tree = ast.parse("".join(lines_of(path)))
    except SyntaxError:
        return ()
    caught = ((node, _handlers(node)) for node in ast.walk(tree))
    return tuple(_Try(_lines(node.body), handlers) for node, handlers in caught if handlers)  # type: ignore[attr-defined]  # statements have one


def _handlers(node: ast.AST) -> tuple[_Handler, ...]:
    """Return the clauses of a statement that catches: `try` with `except`, and `with contextlib.suppress(...)`.

    A `finally` that jumps is one that catches all.
    """
    if isinstance(node, (ast.Try, ast.TryStar)):
        last = [each for top in node.finalbody for each in ast.walk(top)]
        leaves = any(isinstance(each, JUMPS) for each in last)
        clauses = tuple(_Handler(each.type, leaves or not _raises(each.body)) for each in node.handlers)
        return (*clauses, _Handler(None)) if any(isinstance(each, ENDS) for each in last) else clauses
    if not isinstance(node, (ast.With, ast.AsyncWith)):
        return ()
    calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
    kinds = (kind for each in calls if ast.unparse(each.func).endswith("suppress") for kind in each.args)
    managers = (_called(item.context_expr) for item in node.items)
    return (*map(_Handler, kinds), *(_Handler(None, manager=each) for each in managers))


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _swallows(manager: Any) -> bool:
    """Return whether a context manager of the user's, or what makes it, may end an error: `__exit__` gives a value."""
    function = getattr(manager, "__wrapped__", None)
    if isinstance(function, FunctionType):  # of contextlib.contextmanager
        lines = {line for _, _, line in function.__code__.co_lines() if line is not None}
        tries = _tries(function.__code__.co_filename) if kind_of(function.__code__.co_filename) == USER else ()
        return any(handler.goes_on for each in tries if each.lines & lines for handler in each.handlers)
    leave = getattr(manager if isinstance(manager, type) else type(manager), "__exit__", None)
    if not isinstance(leave, FunctionType) or kind_of(leave.__code__.co_filename) != USER:
        return False
    steps = [*dis.get_instructions(leave)]
    given = (before for before, step in pairwise(steps) if step.opname == "RETURN_VALUE")
    return any(each.opname != "LOAD_CONST" or each.argval not in (None, False) for each in given)


def _raises(body: Sequence[ast.stmt]) -> bool:
    """Return whether statements end by an error whatever happens: they raise at last, and leave by no other way."""
    return isinstance(body[-1], ast.Raise) and not any(
        isinstance(each, JUMPS) for top in body for each in ast.walk(top)
    )


def _lines(body: Sequence[ast.stmt]) -> frozenset[int]:
    nodes = (node for each in body for node in ast.walk(each))
    inner = (node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    own = set(range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1))
    return frozenset(own.difference(*(range(each.lineno + 1, (each.end_lineno or each.lineno) + 1) for each in inner)))
