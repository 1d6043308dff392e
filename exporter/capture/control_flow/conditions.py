"""Truth values in the text of a function, in forms that also take tensors: Python itself would ask each what it is.

not a and 0 < b < 1                      and_(not_(a), lambda: compared(0, ("Lt", lambda: b), ("Lt", lambda: 1)))
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from fxport.exporter.capture.control_flow.syntax import call, deferred, is_at, placed

BOUND = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
"""Expressions that may not move into a function of their own."""


def test_of(test: ast.expr) -> ast.expr:
    """Write the test of an `if`, of which only the truth is asked, for tensors."""
    return _Tests("and_", "or_").visit(copy.deepcopy(test))


def choices_kept(function: ast.FunctionDef, lines: set[int]) -> bool:
    """`a if test else b`, `a and b`, `not a` and `a < b < c` at these lines become calls. Whether there was one."""
    visitor = _Choices(lines)
    function.body = [visitor.visit(node) for node in function.body]
    return visitor.found


class _Choices(ast.NodeTransformer):
    def __init__(self, lines: set[int]) -> None:
        self.lines, self.found = lines, False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node  # it is rewritten by itself

    def visit_If(self, node: ast.If) -> ast.AST:
        return self.tested(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        return self.tested(node)

    def tested(self, node: ast.If | ast.While) -> ast.AST:
        """Leave the test to the template of the statement, but for choices in it."""
        test = node.test
        node.test = ast.Constant(True)
        self.generic_visit(node)
        node.test = self.visit(test) if any(isinstance(each, ast.IfExp) for each in ast.walk(test)) else test
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """`assert test` is `if not test: raise AssertionError`, for inputs that the model accepts."""
        if not is_at(node, self.lines):
            return node
        self.found = True
        fails = ast.UnaryOp(ast.Not(), node.test)
        error = ast.Call(ast.Name("AssertionError", ast.Load()), [] if node.msg is None else [node.msg], [])
        return placed(
            ast.If(
                call("refused", test_of(fails), deferred(ast.Name("AssertionError", ast.Load()))),
                [ast.Raise(error)],
                [],
            ),
            node,
        )

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        arms = [node.body, node.orelse]
        if binds(arms) or not is_at(node.test, self.lines):
            return node
        self.found = True
        ways = [deferred(arm) for arm in arms]
        return placed(call("chosen", test_of(node.test), *ways), node.test)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """`values[index]`, where the index may be one that Python asks for."""
        self.generic_visit(node)
        plain = isinstance(node.slice, (ast.Slice, ast.Constant)) or _holds_slices(node.slice)
        if plain or not isinstance(node.ctx, ast.Load) or not is_at(node, self.lines):
            return node
        self.found = True
        return placed(call("element", node.value, node.slice), node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """`values[key] = value`, where the key may be a dynamic size."""
        self.generic_visit(node)
        target = node.targets[0]
        is_item = isinstance(target, ast.Subscript) and not isinstance(target.slice, (ast.Slice, ast.Constant))
        if len(node.targets) > 1 or not is_item or not is_at(target, self.lines):
            return node
        assert isinstance(target, ast.Subscript)
        self.found = True
        return placed(ast.Expr(call("put", node.value, target.value, target.slice)), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        return self.valued(node, node.values[1:])

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        asked = len(node.ops) > 1 or _is_membership(node) or _is_of_equality(node)
        return self.valued(node, node.comparators) if asked else self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        return self.valued(node, []) if isinstance(node.op, ast.Not) else self.generic_visit(node)

    def valued(self, node: ast.expr, later: Sequence[ast.expr]) -> ast.AST:
        if binds(later) or not is_at(node, self.lines):
            return self.generic_visit(node)
        self.found = True
        return _Tests("both", "either").visit(node)


class _Tests(ast.NodeTransformer):
    """`not`, `and`, `or` and `bool`, and comparisons of more than two, which make truth values of tensors."""

    def __init__(self, both: str, either: str) -> None:
        self.both, self.either = both, either

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return placed(call("not_", node.operand), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        if binds(node.values[1:]):  # a name that is bound in a function of its own would be lost
            return node
        self.generic_visit(node)
        result = node.values[0]
        for value in node.values[1:]:
            name = self.both if isinstance(node.op, ast.And) else self.either
            result = placed(call(name, result, deferred(value)), node)
        return result

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if _is_membership(node):
            found = placed(call("among", node.left, *node.comparators), node)
            negated = placed(call("not_", found), node)
            return negated if isinstance(node.ops[0], ast.NotIn) else found
        if (len(node.ops) == 1 and not _is_of_equality(node)) or binds(node.comparators):
            return node
        pairs: list[ast.expr] = [
            ast.Tuple([ast.Constant(type(kind).__name__), deferred(value)], ast.Load())
            for kind, value in zip(node.ops, node.comparators, strict=True)
        ]
        return placed(call("compared", node.left, *pairs), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        plain = isinstance(node.func, ast.Name) and node.func.id == "bool" and len(node.args) == 1
        if not plain:
            return node
        return node.args[0] if self.both == "and_" else placed(call("truth", *node.args), node)


def _holds_slices(index: ast.expr) -> bool:
    """`x[:, 0]`, of a tensor."""
    return isinstance(index, ast.Tuple) and any(isinstance(each, (ast.Slice, ast.Starred)) for each in index.elts)


def _is_membership(node: ast.Compare) -> bool:
    """`x in (0, 1)`, of which either side may be a tensor."""
    return len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn))


def _is_of_equality(node: ast.Compare) -> bool:
    """`x.shape == y.shape`, whose sides may be lists or tuples of numbers."""
    return len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.NotEq))


def binds(values: Sequence[ast.expr]) -> bool:
    """Return True if one of the expressions binds a name, or may not move for another reason."""
    return any(isinstance(each, BOUND) for value in values for each in ast.walk(value))
