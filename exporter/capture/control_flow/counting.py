"""Tell from its text how far a `while` counts; see `counted`."""

from __future__ import annotations

import ast

ENDS = {ast.Lt: 0, ast.LtE: 1}
"""Numbers to add to the right side of a comparison for the end of the range that it allows."""


def counts_by(node: ast.While) -> tuple[ast.expr, ast.expr, int, int] | None:
    """Return what a loop counts, up to where, the last included or not, and by how much, as far as its text tells."""
    test = node.test
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in ENDS):
        return None
    counted, end = test.left, ENDS[type(test.ops[0])]
    if isinstance(counted, ast.Name):
        steps = [step for each in node.body if (step := _added(each, counted.id)) is not None]
        return (counted, test.comparators[0], end, steps[0]) if len(steps) == 1 else None
    is_length = isinstance(counted, ast.Call) and isinstance(counted.func, ast.Name) and counted.func.id == "len"
    return (counted, test.comparators[0], end, 1) if is_length else None


def _added(statement: ast.stmt, name: str) -> int | None:
    """Return the positive constant that a statement adds to a variable."""
    if not (isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add)):
        return None
    if not (isinstance(statement.target, ast.Name) and statement.target.id == name):
        return None
    step = getattr(statement.value, "value", None)
    return step if type(step) is int and step > 0 else None
