"""The names that statements bind and read, by Python's scoping rules.

Source: https://docs.python.org/3/reference/executionmodel.html#naming-and-binding
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SCOPES = (*FUNCTIONS, *COMPREHENSIONS)


def bound(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that the nodes bind or unbind in the scope that they stand in.

    Those are targets of assignments, loops, `with` and `del`, functions, classes, imports, `except ... as`, patterns of
    `match`, and `:=`, which binds for the function around a comprehension as well.
    """
    return {name for node in nodes for name in _bound(node)}


def _bound(node: ast.AST, walrus_only: bool = False) -> Iterator[str]:
    if not walrus_only or isinstance(node, ast.NamedExpr):
        yield from own_bindings(node)
    if isinstance(node, FUNCTIONS):
        parts: Iterable[ast.AST] = (*node.args.defaults, *(each for each in node.args.kw_defaults if each))
        if not isinstance(node, ast.Lambda):
            parts = (*parts, *node.decorator_list)
    elif isinstance(node, ast.ClassDef):
        parts = (*node.bases, *node.keywords, *node.decorator_list)
    else:
        parts = children(node)
        walrus_only = walrus_only or isinstance(node, COMPREHENSIONS)
    for part in parts:
        yield from _bound(part, walrus_only)


def own_bindings(node: ast.AST) -> Iterator[str]:
    """Yield what the node itself binds."""
    if isinstance(node, ast.NamedExpr):
        yield node.target.id
    elif isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Load):
            yield node.id
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from ((each.asname or each.name).partition(".")[0] for each in node.names)
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        if node.name is not None:
            yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest is not None:
        yield node.rest


def read(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that the nodes read, also in scopes of their own; `x += 1` and `del x` read `x` as well."""
    found: set[str] = set()
    for node in (each for top in nodes for each in ast.walk(top)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Load, ast.Del)):
            found.add(node.id)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def captured(function: ast.FunctionDef) -> set[str]:
    """Return the names that functions, lambdas, classes and generator expressions inside of the function refer to.

    Such a scope may run at any later time, and sees what the names then stand for.
    """
    found: set[str] = set()
    for node in own_nodes(function):
        if node is not function and isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.GeneratorExp)):
            found |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            found |= {name for each in ast.walk(node) if isinstance(each, ast.Nonlocal) for name in each.names}
    return found


def declared(function: ast.FunctionDef, kind: type[ast.Global] | type[ast.Nonlocal]) -> set[str]:
    """Return the names that the function declares as `global` or as `nonlocal`."""
    return {name for node in own_nodes(function) if isinstance(node, kind) for name in node.names}


def arguments(function: ast.FunctionDef) -> list[str]:
    """Return the names of a function's parameters, in their order."""
    given = function.args
    rest = [each for each in (given.vararg, given.kwarg) if each is not None]
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, *rest)]


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it, outermost first, without what functions and classes below it hold."""
    waiting = [function]
    while waiting:
        node = waiting.pop()
        yield node
        if node is function or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            waiting += children(node)[::-1]


def children(node: ast.AST) -> list[ast.AST]:
    """Return the nodes directly below a node, as `ast.iter_child_nodes` yields them."""
    found: list[ast.AST] = []
    for _, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            found.append(value)
        elif isinstance(value, list):
            found += [each for each in value if isinstance(each, ast.AST)]
    return found
