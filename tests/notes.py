"""Statements and expressions in a source that note that they were run, for tests/reach.py."""

from __future__ import annotations

import ast

NOTE = "__note_block__"
"""The function that notes the number of a block; it returns None."""

blocks: list[str] = []
"""Where each block starts, as path:line, and :column of an expression, by its number."""


class Noted(ast.NodeTransformer):
    """Adds to each block a statement that notes it, and to each part of an expression that may not be evaluated."""

    def __init__(self, path: str) -> None:
        self.path = path

    def note(self, at: ast.AST, kind: str = "") -> ast.stmt:
        return ast.copy_location(ast.Expr(self.call(at, kind)), at)

    def noted(self, node: ast.expr) -> ast.expr:
        """The expression, noted when it is evaluated: a note is None."""
        column = f":{node.col_offset}"
        return ast.copy_location(ast.BoolOp(ast.Or(), [self.call(node, column), node]), node)

    def call(self, at: ast.AST, kind: str) -> ast.expr:
        line = getattr(at, "lineno", 0)
        blocks.append(f"{self.path}:{line}{kind}")
        call = ast.Call(ast.Name(NOTE, ast.Load()), [ast.Constant(len(blocks) - 1)], [])
        return ast.fix_missing_locations(ast.copy_location(call, at))

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.If | ast.For | ast.While | ast.ExceptHandler):
            first = node.body[0]
            is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            node.body.insert(1 if is_text and is_function else 0, self.note(first))
        if isinstance(node, ast.If):
            node.orelse.insert(0, self.note(node.orelse[0] if node.orelse else node, " else"))
        elif isinstance(node, ast.IfExp):
            node.body, node.orelse = self.noted(node.body), self.noted(node.orelse)
        elif isinstance(node, ast.BoolOp):
            node.values[1:] = map(self.noted, node.values[1:])
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            node.elt = self.noted(node.elt)
        elif isinstance(node, ast.DictComp):
            node.value = self.noted(node.value)
        elif isinstance(node, ast.comprehension):
            node.ifs = [
                ast.copy_location(ast.BoolOp(ast.Or(), [each, self.call(each, f":{each.col_offset} not")]), each)
                for each in node.ifs
            ]
        return node
