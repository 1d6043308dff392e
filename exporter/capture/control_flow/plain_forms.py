"""Statements in forms of fewer kinds that mean the same, so that what comes after has fewer to know.

match kind:                              _match_1_0 = kind
    case 0 | 1: y = x                    if _match_1_0 == 0 or _match_1_0 == 1: y = x
    case _: y = -x                       else: y = -x

while (s := f(x)) > 1: x = g(x)          while True:
                                             s = f(x)
                                             if not s > 1: break
                                             x = g(x)

if test: y = f(x)                        if not test: raise ValueError
else: raise ValueError                   y = f(x)

y: Tensor = f(x)                         y = f(x)
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fxport.exporter.capture.analysis.names import SCOPES, own_nodes
from fxport.exporter.capture.control_flow.conditions import binds
from fxport.exporter.capture.control_flow.jumps import jumps_of
from fxport.exporter.capture.control_flow.syntax import is_at, placed

Forms = list[ast.stmt]


@dataclass(frozen=True, slots=True)
class Known:
    """Names of the function that are lists, the lines of choices that are to be branches, and those to rewrite."""

    lists: set[str]
    splits: set[int]
    lines: set[int]


def made_plain(function: ast.FunctionDef, lines: set[int], splits: set[int]) -> None:
    """Rewrite the statements of the function itself, not of functions in it, in their plain forms; inner ones first.

    Choices at the lines of `splits` become branches, and those of which an arm goes through values at `lines`.
    """
    known = Known(_lists_of(function), splits, lines)
    for parent in reversed(list(own_nodes(function))):
        if isinstance(parent, SCOPES) and parent is not function:
            continue
        for field in ("body", "orelse", "finalbody"):
            block = getattr(parent, field, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                new = [made for node in block for made in _forms(node, known)]
                setattr(parent, field, new or [ast.copy_location(ast.Pass(), block[0])])
    ast.fix_missing_locations(function)


def _forms(node: ast.stmt, known: Known) -> Forms:
    form = FORMS.get(type(node))
    return form(node, known) if form is not None else [node]


def _lists_of(function: ast.FunctionDef) -> set[str]:
    """Return the names that the function binds to list displays, and to nothing else."""
    bound: dict[str, bool] = {}
    for node in own_nodes(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for name, value in _pairs(target, node.value):
                    bound[name] = bound.get(name, True) and isinstance(value, ast.List)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            bound[name] = bound.get(name, True) and isinstance(node.value, ast.List)
    return {name for name, whether in bound.items() if whether}


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        return [(target.id, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return [pair for one, other in zip(target.elts, value.elts, strict=True) for pair in _pairs(one, other)]
    return [(each.id, value) for each in ast.walk(target) if isinstance(each, ast.Name)]


def _match(node: Any, known: Known) -> Forms:
    """Write a `match` as a chain of `if`; leave it where a pattern takes apart what is no display of its parts."""
    subject = f"_match_{node.lineno}_{node.col_offset}"
    is_display = isinstance(node.subject, (ast.Tuple, ast.List)) and not _starred(node.subject.elts)
    parts = [f"{subject}_{i}" for i in range(len(node.subject.elts))] if is_display else None
    chain: Forms = []
    for case in reversed(node.cases):
        found = _bound_by(case.pattern, subject, parts)
        if found is None:
            return [node]
        test, names = found
        if test is not None and _is_certain(test):
            test = None
        elif test is not None and names:
            return [node]
        taken = [_assigned(name, ast.Name(value, ast.Load()), case.pattern) for name, value in names]
        tests = [each for each in (test, case.guard) if each is not None]
        if not tests:
            chain = [*taken, *case.body]
            continue
        whole = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
        branch = ast.If(ast.copy_location(whole, tests[0]), case.body, chain)
        chain = [*taken, ast.copy_location(branch, case.pattern)]
    value, before = node.subject, list[ast.stmt]()
    if parts is not None:
        before = [_assigned(name, each, node) for name, each in zip(parts, node.subject.elts, strict=True)]
        value = placed(type(node.subject)([ast.Name(name, ast.Load()) for name in parts], ast.Load()), node.subject)
    return [*before, _assigned(subject, value, node), *chain]


def _starred(elements: list[ast.expr]) -> bool:
    return any(isinstance(each, ast.Starred) for each in elements)


def _bound_by(
    pattern: Any, subject: str, parts: list[str] | None
) -> tuple[ast.expr | None, list[tuple[str, str]]] | None:
    """Return the test of a pattern and the names that it binds, each with that of its value; None if it is not known.

    Args:
        pattern: The pattern.
        subject: The name of what is matched.
        parts: The names of its elements, where it is a sequence of as many.
    """
    if isinstance(pattern, ast.MatchAs):
        return (ast.Constant(True), [(pattern.name, subject)] if pattern.name else []) if not pattern.pattern else None
    if not isinstance(pattern, ast.MatchSequence) or parts is None:
        test = _test_of(pattern, subject)
        return None if test is None else (test, [])
    stars = [i for i, each in enumerate(pattern.patterns) if isinstance(each, ast.MatchStar)]
    others = len(pattern.patterns) - len(stars)
    if others > len(parts) or (others < len(parts) and not stars):
        return placed(ast.Constant(False), pattern), []
    if any(isinstance(each, ast.MatchStar) and each.name for each in pattern.patterns):
        return None
    at = [*parts[: stars[0]], None, *parts[len(parts) - others + stars[0] :]] if stars else parts
    names: list[tuple[str, str]] = []
    for each, part in zip(pattern.patterns, at, strict=True):
        if part is None:
            continue
        if not isinstance(each, ast.MatchAs) or each.pattern is not None:
            return None
        names += [(each.name, part)] if each.name else []
    return placed(ast.Constant(True), pattern), names


def _test_of(pattern: Any, subject: str) -> ast.expr | None:
    """Return the test of a pattern; None for patterns that look into their subject."""
    name = ast.Name(subject, ast.Load())
    test: ast.expr | None = None
    if isinstance(pattern, ast.MatchValue):
        test = ast.Compare(name, [ast.Eq()], [pattern.value])
    elif isinstance(pattern, ast.MatchSingleton):
        test = ast.Compare(name, [ast.Is()], [ast.Constant(pattern.value)])
    elif isinstance(pattern, ast.MatchOr):
        tests = [_test_of(each, subject) for each in pattern.patterns]
        test = ast.BoolOp(ast.Or(), [each for each in tests if each]) if all(tests) else None
    elif isinstance(pattern, ast.MatchAs) and pattern.pattern is None:
        test = ast.Constant(True)
    return test and placed(test, pattern)


def _is_certain(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and test.value is True


def _while(node: ast.While, known: Known) -> Forms:
    """Write what the test of a `while` binds as statements of each turn."""
    if not any(isinstance(each, ast.NamedExpr) for each in ast.walk(node.test)):
        return _loop(node, known)
    before, test = _bindings(node.test)
    if node.orelse or any(isinstance(each, ast.NamedExpr) for each in ast.walk(test)):
        return [node]
    leave = ast.If(placed(ast.UnaryOp(ast.Not(), test), test), [_at(ast.Break(), test)], [])
    going = placed(ast.Constant(True), node.test)
    return [ast.copy_location(ast.While(going, [*before, _at(leave, test), *node.body], []), node)]


def _bindings(test: ast.expr) -> tuple[Forms, ast.expr]:
    """Split an expression into statements for what it binds in any case, and the rest."""
    found: Forms = []

    class Taken(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            if isinstance(node, (*SCOPES, ast.IfExp)):
                return node
            if isinstance(node, ast.BoolOp):
                return self.by_steps(node) if binds(node.values[1:]) else self.generic_visit(node)
            self.generic_visit(node)
            if not isinstance(node, ast.NamedExpr):
                return node
            found.append(_assigned(node.target.id, node.value, node))
            return placed(ast.Name(node.target.id, ast.Load()), node)

        def by_steps(self, node: ast.BoolOp) -> ast.expr:
            """Ask for one value after the other: what the later ones bind is bound if they are asked for."""
            name = f"_fxport_test_{node.lineno}_{node.col_offset}"
            found.append(_assigned(name, self.visit(node.values[0]), node))
            for value in node.values[1:]:
                before, rest = _bindings(value)
                so_far: ast.expr = placed(ast.Name(name, ast.Load()), node)
                asked = so_far if isinstance(node.op, ast.And) else placed(ast.UnaryOp(ast.Not(), so_far), node)
                found.append(_at(ast.If(asked, [*before, _assigned(name, rest, node)], []), node))
            return placed(ast.Name(name, ast.Load()), node)

    rest = Taken().visit(copy.deepcopy(test))
    return found, rest


def _loop(node: Any, known: Known) -> Forms:
    """Move the `else` of a loop without `break` behind the loop."""
    if not node.orelse or any(isinstance(jump, ast.Break) for jump in jumps_of(node.body)):
        return [node]
    after, node.orelse = node.orelse, []
    return [node, *after]


def _if(node: ast.If, known: Known) -> Forms:
    """Write a branch that raises as an `if` of its own, in front, and so what later values of the test bind."""
    choices = [each for each in ast.walk(node.test) if isinstance(each, ast.BoolOp)]
    if any(binds(each.values[1:]) for each in choices):
        before, test = _bindings(node.test)
        rest = ast.copy_location(ast.If(test, node.body, node.orelse), node)
        return [*before, *_if(rest, known)] if not binds([test]) else [node]
    if not node.orelse:
        return [node]
    if isinstance(node.body[-1], ast.Raise):
        after, node.orelse = node.orelse, []
        return [node, *after]
    if not isinstance(node.orelse[-1], ast.Raise):
        return [node]
    test = placed(ast.UnaryOp(ast.Not(), node.test), node.test)
    return [ast.copy_location(ast.If(test, node.orelse, []), node), *node.body]


def _expr(node: ast.Expr, known: Known) -> Forms:
    """`found.extend([a, b])` as what appends each."""
    call = node.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "extend":
        return [node]
    if len(call.args) != 1 or call.keywords:
        return [node]
    return _appends(call.func.value, call.args[0], node, known) or [node]


def _choice(node: Any, known: Known) -> Forms:
    """`y = (z := a) if test else b` as an `if`: what binds names is no part of an expression that can be moved."""
    choice = node.value
    arms = [choice.body, choice.orelse] if isinstance(choice, ast.IfExp) else []
    inner = [each for arm in arms for each in ast.walk(arm)]
    is_binding = any(isinstance(each, ast.NamedExpr) for each in inner)
    is_loop = any(isinstance(each, (ast.ListComp, ast.GeneratorExp)) and is_at(each, known.lines) for each in inner)
    if not arms or not (is_binding or is_loop or is_at(choice.test, known.splits)):
        return [node]
    ways: list[Forms] = []
    for arm in arms:
        way = copy.copy(node)
        way.value = arm
        ways.append(_choice(copy.deepcopy(way), known))
    return [ast.copy_location(ast.If(choice.test, *ways), node)]


def _annotated(node: ast.AnnAssign, known: Known) -> Forms:
    """`y: Tensor = a` without its annotation, which a name of another function may not have; functions ignore it.

    A name that is only annotated stays one of this function.
    """
    if not isinstance(node.target, ast.Name):
        return [node]
    name = node.target.id
    if node.value is None:
        return [_at(ast.If(placed(ast.Constant(False), node), [_assigned(name, ast.Constant(None), node)], []), node)]
    return _choice(_assigned(name, node.value, node), known)


def _augmented(node: ast.AugAssign, known: Known) -> Forms:
    """`found += [a, b]` as what appends each."""
    return (isinstance(node.op, ast.Add) and _appends(node.target, node.value, node, known)) or [node]


def _appends(held: ast.expr, values: ast.expr, like: ast.stmt, known: Known) -> Forms:
    written_out = isinstance(values, (ast.List, ast.Tuple)) and not any(
        isinstance(each, ast.Starred) for each in values.elts
    )
    if not written_out or not isinstance(held, ast.Name) or held.id not in known.lists:
        return []
    assert isinstance(values, (ast.List, ast.Tuple))
    function = ast.Attribute(ast.Name(held.id, ast.Load()), "append", ast.Load())
    calls = [ast.Call(copy.deepcopy(function), [each], []) for each in values.elts]
    return [_at(ast.Expr(placed(call, like)), like) for call in calls]


def _assigned(name: str, value: ast.expr, like: Any) -> ast.stmt:
    return _at(ast.Assign([placed(ast.Name(name, ast.Store()), like)], value), like)


def _at(statement: ast.stmt, like: Any) -> ast.stmt:
    return ast.copy_location(statement, like)


FORMS: Mapping[type[ast.stmt], Callable[[Any, Known], Forms]] = {
    ast.Match: _match,
    ast.While: _while,
    ast.For: _loop,
    ast.If: _if,
    ast.Assign: _choice,
    ast.AnnAssign: _annotated,
    ast.Return: _choice,
    ast.Expr: _expr,
    ast.AugAssign: _augmented,
}
"""The plain forms of a statement, by its kind."""
