"""Requests for dynamic dimensions in a source, those for the model of a finding: a file may export several."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from fxport.diagnostics.fixes.site import Site

Unit = ast.expr | ast.stmt
"""Code that holds requests: the call that they are arguments of, else the statement."""

DISPLAYS = frozenset(("dict", "tuple", "list", "Dim"))
"""Calls that only make a part of a request."""

Defined = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def requests_of(site: Site, dim: str) -> Sequence[ast.expr]:
    """Return the nodes that declare a dimension of this name for the model of a finding.

    They are `Dim("rows")`, or `"rows"` as a value of `{0: "rows"}`. None are returned where the source does not tell
    that they are of this model and of no other, as an edit of them could change what another export asks for.
    """
    held: dict[Unit, list[ast.expr]] = {}
    for node in _declarations(site, dim):
        if (unit := _unit(site, node)) is not None:
            held.setdefault(unit, []).append(node)
    definition = _definition(site)
    uses = {unit: _use(site, unit) for unit in held}
    named = [unit for unit, last in uses.items() if last is not None and definition in _reached(site, last)]
    if definition is None or (not named and not any(_reached(site, each) for each in uses.values() if each)):
        named = [*held]  # nothing tells them apart
    return held[named[0]] if len(named) == 1 and uses[named[0]] is not None else ()


def _declarations(site: Site, dim: str) -> Iterator[ast.expr]:
    for node in ast.walk(site.tree):
        if isinstance(node, ast.Call) and is_dim(node) and _is_name(node.args[0], dim):
            yield node
        elif isinstance(node, ast.Dict) and all(_is_axis(key) for key in node.keys):
            yield from (value for value in node.values if _is_name(value, dim))


def is_dim(node: ast.Call) -> bool:
    return _called(node) == "Dim" and bool(node.args)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _is_name(node: ast.expr, dim: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == dim


def _is_axis(key: ast.expr | None) -> bool:
    if isinstance(key, ast.UnaryOp):
        key = key.operand
    return isinstance(key, ast.Constant) and isinstance(key.value, int)


def _unit(site: Site, node: ast.AST) -> Unit | None:
    for each in site.around(node):
        if isinstance(each, ast.stmt) or (isinstance(each, ast.Call) and _called(each) not in DISPLAYS):
            return each
    return None


def _use(site: Site, unit: Unit) -> Unit | None:
    """Return what takes the requests of a unit in the end, through the names that it gives them; None if several do."""
    seen = set[Unit]()
    while unit not in seen:
        seen.add(unit)
        names = {*_names_given(site, unit)}
        loads = [each for each in ast.walk(site.tree) if names and _loaded(each) in names]
        users = {user for each in loads if (user := _unit(site, each)) is not None and user not in seen}
        if len(users) > 1:
            return None
        unit = next(iter(users), unit)
    return unit


def _names_given(site: Site, unit: Unit) -> Iterator[str]:
    """Yield the names by which other code has what a statement gives."""
    if isinstance(unit, ast.Return) and (function := site.function_at(unit)) is not None:
        yield function.name
    targets = unit.targets if isinstance(unit, ast.Assign) else [unit.target] if isinstance(unit, ast.AnnAssign) else []
    for target in targets:
        base = target.value if isinstance(target, ast.Subscript) else target
        for each in base.elts if isinstance(base, ast.Tuple) else [base]:
            name = each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", None)
            if name is not None:
                yield name


def _loaded(node: ast.AST) -> str | None:
    """Return the name or attribute that a node reads."""
    if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
        return node.id if isinstance(node, ast.Name) else node.attr
    return None


def _definition(site: Site) -> ast.AST | None:
    """Return the outermost class or function around the finding's line."""
    statement = site.statement
    around = [statement, *site.around(statement)] if statement is not None else []
    return next((each for each in reversed(around) if isinstance(each, Defined)), None)


def _reached(site: Site, unit: Unit) -> set[ast.AST]:
    """Return the classes and functions at the top of the file that a unit uses, and those that they use."""
    top = {each.name: each for each in site.tree.body if isinstance(each, Defined)}
    made: dict[str, list[ast.expr]] = {}
    for each in ast.walk(site.tree):
        for target in each.targets if isinstance(each, ast.Assign) else ():
            if isinstance(target, ast.Name) and isinstance(each, ast.Assign):
                made.setdefault(target.id, []).append(each.value)
    found, seen, waiting = set[ast.AST](), set[str](), list[ast.AST]([unit])
    while waiting:
        part = waiting.pop()
        inner = isinstance(part, Defined)
        for name in {each.id for each in ast.walk(part) if isinstance(each, ast.Name)} - seen:
            if name in top:
                seen.add(name)
                found.add(top[name])
                waiting.append(top[name])
            elif not inner and name in made:  # what a function of that file calls so is its own
                seen.add(name)
                waiting += made[name]
    return found
