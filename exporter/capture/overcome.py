"""Sentences for code that asks for data and was kept: a condition, a number, or a check that is left out."""

from __future__ import annotations

import ast
from functools import lru_cache

from fxport.diagnostics import Place, source

CONDITION = "this condition is in the ONNX model, which decides it when it runs"
NUMBER = "this number of the data is computed in the ONNX model when it runs"
CHECK = "this check is not in the ONNX model, which raises nothing when it runs"
EITHER = "what depends on data here is computed in the ONNX model when it runs"

DECIDING = (ast.IfExp, ast.BoolOp, ast.comprehension)
"""Expressions that ask for a truth value, besides statements."""


def what_became(place: Place | None) -> str:
    """Return a sentence about the code at a place, by the innermost statement there."""
    statement = None if place is None else _statement("".join(source.lines_of(place.path)), place.line)
    if statement is None:
        return EITHER
    if isinstance(statement, ast.Assert) or _asserts(statement) or _only_raises(statement):
        return CHECK
    if isinstance(statement, (ast.If, ast.While, ast.Match)):
        return CONDITION
    return CONDITION if any(isinstance(node, DECIDING) for node in ast.walk(statement)) else NUMBER


def raises_by_one_test(place: Place) -> bool:
    """Return whether a comparison of two values at a place decides alone whether the model raises an error there.

    That is the test of an `if` that ends in an error, or of an `assert`: in the innermost function that runs there.
    """
    inner = place.stack[0] if place.stack else place
    statement = _statement("".join(source.lines_of(inner.path)), inner.line)
    if not isinstance(statement, ast.Assert | ast.If):
        return False
    raises = isinstance(statement, ast.Assert) or _only_raises(statement)
    return raises and isinstance(statement.test, ast.Compare) and len(statement.test.ops) == 1


def _only_raises(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[-1], ast.Raise)


def _asserts(statement: ast.stmt) -> bool:
    """Return whether a statement is `torch._assert(…)`."""
    called = statement.value.func if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) else None
    return getattr(called, "attr", getattr(called, "id", None)) == "_assert"


@lru_cache(maxsize=16)
def _statements(text: str) -> list[ast.stmt]:
    """The statements of a file, from the outside in; none where it is not Python."""
    try:
        return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


@lru_cache(maxsize=64)
def _statement(text: str, line: int) -> ast.stmt | None:
    """The innermost statement that stands on a line; None where there is no source."""
    statements = _statements(text)
    held = [node for node in statements if node.lineno <= line <= (node.end_lineno or node.lineno)]
    return max(held, key=lambda node: (node.lineno, -(node.end_lineno or 0)), default=None)
