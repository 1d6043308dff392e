"""A Python condition on tensors, written as a tensor."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from diagnostics.fixes.site import Site

TRUTHS = frozenset(("any", "all", "isnan", "isinf", "logical_not", "logical_and", "logical_or", "is_nonzero"))
"""Calls that give truth values already."""
SIGNS: Mapping[type[ast.boolop], str] = {ast.And: " & ", ast.Or: " | "}


def as_tensor(site: Site, test: ast.expr) -> str:
    """The condition as a boolean tensor: `not a` as `~(a)`, `a and b` as `(a) & (b)`, `bool(a)` as `a`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return f"~({as_tensor(site, test.operand)})"
    if isinstance(test, ast.BoolOp):
        return SIGNS[type(test.op)].join(f"({as_tensor(site, value)})" for value in test.values)
    if isinstance(test, ast.Call):
        return _of_call(site, test)
    if isinstance(test, ast.Compare):
        return _of_comparison(site, test)
    return f"{site.operand(test)} != 0"


def _of_call(site: Site, test: ast.Call) -> str:
    name = test.func.attr if isinstance(test.func, ast.Attribute) else getattr(test.func, "id", "")
    if name == "bool" and len(test.args) == 1:
        return as_tensor(site, test.args[0])
    if name in REWRITTEN:
        return REWRITTEN[name](site, test) or site.code(test)
    return site.code(test) if name in TRUTHS else f"{site.code(test)} != 0"


def _of_comparison(site: Site, test: ast.Compare) -> str:
    (sign, *more), (right, *_) = test.ops, test.comparators
    if not more and isinstance(sign, (ast.In, ast.NotIn)):
        found = f"({site.operand(right)} == {site.code(test.left)}).any()"
        return found if isinstance(sign, ast.In) else f"~{found}"
    return site.code(test)


def _equal(site: Site, call: ast.Call) -> str | None:
    if len(call.args) != 2 or call.keywords:
        return None
    return f"({site.operand(call.args[0])} == {site.operand(call.args[1])}).all()"


def _close(site: Site, call: ast.Call) -> str | None:
    if not isinstance(call.func, ast.Attribute):
        return None
    start = site.code(call).removeprefix(f"{site.code(call.func.value)}.allclose")
    return f"{site.code(call.func.value)}.isclose{start}.all()"


REWRITTEN: Mapping[str, Callable[[Site, ast.Call], str | None]] = {"equal": _equal, "allclose": _close}
"""Calls that give a Python truth value, and how a tensor of it is written."""
