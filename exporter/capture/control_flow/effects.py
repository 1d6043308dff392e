"""What a branch does beside binding names: what it writes to, and what could not be undone if it is not taken."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence

from exporter.capture.control_flow.jumps import jumps_of
from exporter.capture.control_flow.loop_heads import NoScanError
from exporter.capture.control_flow.loop_names import OURS, stored

MODULE = "_branch_steps"
"""The name of the module `branch_steps` in a rewritten function."""

REFUSED = f"{MODULE}.refused"

FORBIDDEN = (
    ast.Yield,
    ast.YieldFrom,
    ast.Await,
    ast.Global,
    ast.Nonlocal,
    ast.Delete,
    ast.ClassDef,
)


def check(body: Sequence[ast.stmt]) -> None:
    """Raises NoScanError where a branch does what cannot be undone if the other one is taken."""
    if any(jumps_of(body)):
        raise NoScanError
    for node in (each for top in body for each in unrefused(top)):
        outer_names = isinstance(node, ast.FunctionDef) and not node.name.startswith(OURS)
        if outer_names and any(isinstance(each, (ast.Nonlocal, ast.Global)) for each in ast.walk(node)):
            raise NoScanError
        if isinstance(node, (*FORBIDDEN, ast.Return, ast.Raise)):
            raise NoScanError
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Del):
            raise NoScanError


def unrefused(node: ast.AST) -> Iterator[ast.AST]:
    """The node with all in it, other than functions and errors behind a test that `refused` has seen."""
    yield node
    if isinstance(node, ast.If) and isinstance(node.test, ast.Call) and ast.unparse(node.test.func) == REFUSED:
        return
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        for child in ast.iter_child_nodes(node):
            yield from unrefused(child)


def _unmade(node: ast.AST) -> Iterator[ast.AST]:
    """The node with all in it, other than functions that stand for branches: they were looked at before."""
    if isinstance(node, ast.FunctionDef) and node.name.startswith(OURS):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _unmade(child)


def written(body: Sequence[ast.stmt]) -> set[str]:
    """The names of tensors that the statements write to: `x[i] = y`, `x += y`, `x.add_(y)`."""
    found: set[str] = set()
    for node in (each for top in body for each in ast.walk(top)):
        target = node.value if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) else _in_place(node)
        if target is None:
            continue
        if isinstance(target, ast.Name):
            found.add(target.id)
        elif not _is_path(target):  # what an attribute holds is no copy: the operator itself writes to it
            raise NoScanError
    return found - {name for name in found if name in stored(body)}


def added_to(body: Sequence[ast.stmt]) -> set[str]:
    """The names to which the statements only add, as `x += y` does, which writes to a tensor."""
    nodes = [node for top in body for node in ast.walk(top)]
    added = [node.target.id for node in nodes if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)]
    back = [node for node in nodes if isinstance(node, ast.Assign) and _is_written_back(node.value)]
    added += [name.id for node in back for name in node.targets if isinstance(name, ast.Name)]
    bound = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return {name for name in added if added.count(name) == bound.count(name)}


def _is_written_back(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) == f"{MODULE}.written"


class _Sums(ast.NodeTransformer):
    """`self.count += 1` as `self.count = added(self.count, 1)`, which leaves a tensor as it is until it is set."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if not isinstance(node.target, ast.Attribute):
            return node
        before = copy.copy(node.target)
        before.ctx = ast.Load()
        function = ast.Attribute(ast.Name(MODULE, ast.Load()), "added", ast.Load())
        call = ast.Call(function, [before, ast.Constant(type(node.op).__name__), node.value], [])
        for each in (function, function.value, call, call.args[1]):
            ast.copy_location(each, node)
        return ast.copy_location(ast.Assign([node.target], call), node)


def without_sums(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements with what adds to an attribute as what sets it."""
    return [_Sums().visit(node) for node in body]


def attribute_holders(body: Sequence[ast.stmt]) -> set[str]:
    """The expressions of which the statements set attributes: `self` of `self.mean = x`."""
    nodes = [node for top in body for node in _unmade(top)]
    found = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    if not all(map(_is_path, found)):
        raise NoScanError
    return {ast.unparse(node.value) for node in found}


def held_by(holders: set[str]) -> str:
    """Statements that refuse, where they run, what is neither a module nor can be copied."""
    return "\n".join(f"{MODULE}.holds({holder})" for holder in sorted(holders))


def names_of(function: ast.FunctionDef) -> set[str]:
    """The names of the function's own, other than its first argument, which holds the model."""
    return (arguments_of(function) | stored(function.body)) - {"self"}


def arguments_of(function: ast.FunctionDef) -> set[str]:
    return {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}


def _is_path(node: ast.expr) -> bool:
    """An attribute of a name, or of another such."""
    return isinstance(node, ast.Attribute) and (isinstance(node.value, ast.Name) or _is_path(node.value))


def _in_place(node: ast.AST) -> ast.expr | None:
    """What `x.mul_(y).add_(z)` writes to."""
    target = node.value if isinstance(node, ast.Expr) else None
    while isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute):
        name = target.func.attr
        if not name.endswith("_") or name.endswith("__"):
            return None
        target = target.func.value
    return target if isinstance(node, ast.Expr) and target is not node.value else None
