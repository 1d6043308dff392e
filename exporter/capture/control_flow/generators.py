"""Generators as functions that call the loop's turn for each value: what data decides may then be around a `yield`.

def parts(r):                            def parts(r):
    yield r * 0.5                            def _run(_emit):
    if r.sum() > 0:                              _emit(r * 0.5)
        yield r + 1                              if r.sum() > 0:
                                                     _emit(r + 1)
                                             def _plain():
                                                 the body as it was
                                             return _steps.Pushed(_run, _plain)

A loop that is rewritten runs the first with its turn, in the order in which Python would; all else gets the generator.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import Any

from fxport.exporter.capture.analysis.names import arguments, bound, declared, own_nodes
from fxport.exporter.capture.analysis.source import YIELDS
from fxport.exporter.capture.control_flow.syntax import call, placed, statements


class Pushed:
    """A generator that may also be run by the turns of a loop; a rewritten generator function returns one."""

    def __init__(self, run: Callable[[Callable[[Any], Any]], Any], plain: Callable[[], Any]) -> None:
        self.run, self._plain, self._made = run, plain, None

    def __iter__(self) -> Pushed:
        return self

    def __next__(self) -> Any:
        return next(self._generator)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator, name)

    @property
    def _generator(self) -> Any:
        if self._made is None:
            self._made = self._plain()
        return self._made

    @property
    def is_fresh(self) -> bool:
        """True if nothing was asked of it yet."""
        return self._made is None


def generator_pushed(tree: ast.FunctionDef) -> bool:
    """Rewrite a generator function in place; return whether it is one."""
    if not any(isinstance(node, YIELDS) for node in own_nodes(tree)):
        return False
    plain, run = statements("def _plain():\n    pass\ndef _run(_emit):\n    pass")
    assert isinstance(plain, ast.FunctionDef)
    assert isinstance(run, ast.FunctionDef)
    own = bound(tree.body) - declared(tree, ast.Global) - declared(tree, ast.Nonlocal)
    shared: list[ast.stmt] = [ast.Nonlocal(sorted(own))] if own else []
    plain.body = [*copy.deepcopy(shared), *copy.deepcopy(tree.body)]
    plain.plain = plain.part = run.part = True  # type: ignore[attr-defined]  # `plain` stays as it is
    run.body = [*shared, *(_Emitting().visit(node) for node in tree.body)]
    end = ast.Return(call("Pushed", ast.Name("_run", ast.Load()), ast.Name("_plain", ast.Load())))
    first = tree.body[0]
    unbound = sorted(own - set(arguments(tree)))
    names = statements(f"if False:\n    {' = '.join(unbound)} = None") if unbound else []
    steps = statements("from fxport.exporter.capture.control_flow import steps as _steps")
    tree.body = [placed(node, first) for node in (*steps, *names, plain, run, end)]
    ast.fix_missing_locations(tree)
    return True


class _Emitting(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        given = node.value
        if isinstance(given, ast.Yield):
            value = given.value or ast.copy_location(ast.Constant(None), given)
            return placed(ast.Expr(ast.Call(ast.Name("_emit", ast.Load()), [value], [])), node)
        if isinstance(given, ast.YieldFrom):
            each = ast.Expr(ast.Call(ast.Name("_emit", ast.Load()), [ast.Name("_each", ast.Load())], []))
            return placed(ast.For(ast.Name("_each", ast.Store()), given.value, [each], []), node)
        return node
