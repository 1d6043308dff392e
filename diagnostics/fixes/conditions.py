"""A Python condition on tensors, written as a tensor."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from fxport.diagnostics.fixes.site import Site

TRUTHS = frozenset(("any", "all", "isnan", "isinf", "logical_not", "logical_and", "logical_or", "is_nonzero"))
"""Calls that give truth values already."""
SIGNS: Mapping[type[ast.boolop], str] = {ast.And: " & ", ast.Or: " | "}
_SIGNS: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


def as_tensor(site: Site, test: ast.expr) -> str:
    """The condition as a boolean tensor.

    `not a` is `~(a)`, `a and b` is `(a) & (b)`, `bool(a)` is `a`, `0 < a < 1` is `(0 < a) & (a < 1)`.
    """
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
    if isinstance(test.func, ast.Name) and name in ("any", "all") and len(test.args) == 1:
        return f"torch.stack({_listed(site, test.args[0])}).{name}()"
    if name in REWRITTEN:
        return REWRITTEN[name](site, test) or site.code(test)
    return site.code(test) if name in TRUTHS else f"{site.code(test)} != 0"


def _of_comparison(site: Site, test: ast.Compare) -> str:
    (sign, *more), (right, *_) = test.ops, test.comparators
    if not more and isinstance(sign, (ast.In, ast.NotIn)):
        found = f"({site.operand(right)} == {site.code(test.left)}).any()"
        return found if isinstance(sign, ast.In) else f"~{found}"
    sides = [_side(site, each) for each in (test.left, *test.comparators)]
    signs = [_SIGNS[type(each)] for each in test.ops]
    pairs = [f"{left} {each} {other}" for left, each, other in zip(sides, signs, sides[1:], strict=False)]
    return pairs[0] if not more else " & ".join(f"({pair})" for pair in pairs)


def _side(site: Site, node: ast.expr) -> str:
    """A side of a comparison, which stays a tensor: `float(a)` and `a.item()` as `a`, `int(a)` as `a.long()`."""
    if isinstance(node, ast.Call) and not node.keywords:
        if isinstance(node.func, ast.Name) and node.func.id in ("float", "int") and len(node.args) == 1:
            return f"{site.operand(node.args[0])}.long()" if node.func.id == "int" else site.code(node.args[0])
        if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args:
            return site.code(node.func.value)
    return site.code(node)


def _listed(site: Site, node: ast.expr) -> str:
    """Return the code of an iterable as the code of a list."""
    if isinstance(node, ast.GeneratorExp):
        return f"[{site.code(node).removeprefix('(').removesuffix(')')}]"
    return site.code(node) if isinstance(node, (ast.List, ast.ListComp)) else f"list({site.code(node)})"


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


def reads_a_size(test: ast.expr) -> bool:
    """Return whether a condition is about the size of something, as far as its names tell."""
    names = {getattr(each, "attr", getattr(each, "id", None)) for each in ast.walk(test)}
    return not names.isdisjoint({"len", "numel", "nelement", "shape", "size"})
