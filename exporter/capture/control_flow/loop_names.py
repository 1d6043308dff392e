"""What a loop does with the names of the function around it, read from its syntax."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence

OURS = ("_if_", "_while_")
"""What functions begin with that stand for branches and turns."""

SCOPES = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The function with all in it, other than what functions within it hold; those themselves are among it."""
    yield function
    for node in ast.iter_child_nodes(function):
        yield from (
            [node] if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else own_nodes(node)
        )


def stored(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that the nodes bind, other than in scopes of their own."""
    found: set[str] = set()
    for node in _outside_scopes(nodes):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith(OURS):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(each.asname or each.name).partition(".")[0] for each in node.names}
    return found


def loaded(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that the nodes read, also in scopes of their own."""
    return {
        node.id
        for each in nodes
        for node in ast.walk(each)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def shared(function: ast.FunctionDef, body: Sequence[ast.stmt]) -> set[str]:
    """The names of the function that functions other than in the body read, or that are another function's."""
    found: set[str] = set()
    for node in _outside(function, {id(each) for each in body}):
        if isinstance(node, (ast.Nonlocal, ast.Global)):
            found |= set(node.names)
        elif isinstance(node, (ast.FunctionDef, ast.Lambda)) and node is not function and not _is_made(node):
            inner = node.body if isinstance(node, ast.FunctionDef) else [node.body]
            arguments = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
            found |= loaded(inner) - arguments - stored(inner)
    return found


def _outside(node: ast.AST, left_out: set[int]) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if id(child) not in left_out:
            yield from _outside(child, left_out)


def _is_made(node: ast.FunctionDef | ast.Lambda) -> bool:
    """Whether it stands for an expression, a branch or a turn, in its place."""
    return getattr(node, "made", False) or (isinstance(node, ast.FunctionDef) and node.name.startswith(OURS))


def unseen(function: ast.FunctionDef, body: Sequence[ast.stmt]) -> bool:
    """Whether the body, as a function of its own, binds a name for itself that a function it calls also reads."""
    called = {node.func.id for top in body for node in ast.walk(top)
              if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}  # fmt: skip
    return bool(shared(function, body) & stored(body)) and bool(called - set(dir(builtins)) - stored(body))


def _outside_scopes(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    for node in nodes:
        yield node
        if not isinstance(node, SCOPES):
            yield from _outside_scopes(list(ast.iter_child_nodes(node)))


def read_first(body: Sequence[ast.stmt]) -> set[str]:
    """The names that the statements may read before they bind them: a turn has their value from the one before."""
    return _flow(body, set())[0]


def _flow(body: Sequence[ast.stmt], bound: set[str]) -> tuple[set[str], set[str]]:
    """(names read while not yet bound, names bound for certain at the end)."""
    exposed: set[str] = set()
    bound = set(bound)
    for node in body:
        if isinstance(node, ast.If):
            exposed |= loaded([node.test]) - bound
            one, two = _flow(node.body, bound), _flow(node.orelse, bound)
            exposed |= one[0] | two[0]
            bound = one[1] & two[1]
        elif isinstance(node, (ast.For, ast.While)):
            head = [node.iter] if isinstance(node, ast.For) else [node.test]
            targets = stored([node.target]) if isinstance(node, ast.For) else set()
            exposed |= loaded(head) - bound
            exposed |= _flow([*node.body, *node.orelse], bound | targets)[0]
        elif isinstance(node, ast.With):
            exposed |= loaded(node.items) - bound
            inner = _flow(node.body, bound | stored(node.items))
            exposed, bound = exposed | inner[0], inner[1]
        elif isinstance(node, ast.Try):
            whole = _flow([*node.body, *node.orelse], bound)
            ways = [whole, *(_flow(each.body, bound | {each.name or ""}) for each in node.handlers)]
            last = _flow(node.finalbody, bound)
            exposed = exposed.union(*(way[0] for way in ways), last[0])
            bound = set.intersection(*(way[1] for way in ways)) | last[1]
        elif isinstance(node, ast.FunctionDef):
            arguments = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
            exposed |= (_flow(node.body, bound | arguments)[0] | loaded([node.args])) - bound
            bound |= {node.name}
        else:
            exposed |= (loaded([node]) | _added_to(node)) - bound - _bound_within(node)
            bound |= stored([node])
    return exposed, bound


def _bound_within(node: ast.stmt) -> set[str]:
    """The names that `(y := x) + y` binds before it reads them."""
    found: set[str] = set()
    for each in _outside_scopes([node]):
        if isinstance(each, ast.NamedExpr):
            loads = [name for name in ast.walk(node) if isinstance(name, ast.Name) and name.id == each.target.id]
            before = [name for name in loads if (name.lineno, name.col_offset) < (each.lineno, each.col_offset)]
            if not before and each.target.id not in loaded([each.value]):
                found.add(each.target.id)
    return found


def _added_to(node: ast.stmt) -> set[str]:
    """The name that `x += 1` reads without saying so."""
    return {node.target.id} if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) else set()


def read_after(function: ast.FunctionDef, statement: ast.stmt) -> set[str]:
    """The names whose value at the end of the statement the rest of the function may read, or a further turn of it."""
    found = shared(function, [statement])
    bound: set[str] = set()
    for block, runs in _following(function.body, statement):
        exposed, now = _flow(block, bound)
        found |= exposed
        bound = now if runs else bound
    return found


def _following(body: list[ast.stmt], statement: ast.stmt) -> Iterator[tuple[list[ast.stmt], bool]]:
    """The statements that come after, block by block, innermost first, and whether all of them run for certain."""
    for position, node in enumerate(body):
        rest = body[position + 1 :]
        runs = not any(isinstance(each, (ast.Break, ast.Continue)) for top in rest for each in ast.walk(top))
        if node is statement:
            yield rest, runs
            return
        if _holds(node, statement):
            for name in ("body", "orelse", "finalbody", "handlers"):
                inner = [each for each in getattr(node, name, []) if isinstance(each, ast.stmt)]
                if any(each is statement or _holds(each, statement) for each in inner):
                    yield from _following(inner, statement)
            if isinstance(node, (ast.For, ast.While)):
                yield [node], False
            yield rest, runs
            return


def _holds(outer: ast.AST, inner: ast.AST) -> bool:
    return any(node is inner for node in ast.walk(outer))


def has_private_names(function: ast.FunctionDef) -> bool:
    """Whether a name in it is one that Python changes inside of a class."""
    names = [getattr(node, "id", None) or getattr(node, "attr", None) or "" for node in ast.walk(function)]
    return any(isinstance(name, str) and name.startswith("__") and not name.endswith("__") for name in names)
