"""Lines that make a number of a dynamic size: calls of `int` and the like, and comprehensions over a dynamic size."""

from __future__ import annotations

import ast

from exporter.capture.control_flow.kept_calls import MODULE, NAMES
from exporter.capture.control_flow.loop_heads import STEPS, expression
from exporter.capture.control_flow.loop_names import SCOPES

SIMPLE = (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr)
"""Statements that run their expressions once."""


def calls_kept(function: ast.FunctionDef, lines: set[int]) -> bool:
    """`int(n)` at these lines becomes `kept(int)(n)`. Whether there was such a call."""
    visitor = _Calls(lines)
    function.body = [visitor.visit(node) for node in function.body]
    if visitor.found:
        load = ast.parse(f"from exporter.capture.control_flow import kept_calls as {MODULE}").body[0]
        function.body.insert(0, ast.copy_location(load, function.body[0]))
    return visitor.found


class _Calls(ast.NodeTransformer):
    def __init__(self, lines: set[int]) -> None:
        self.lines, self.found = lines, False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
        if name not in NAMES or not _is_at(node, self.lines):
            return node
        self.found = True
        kept = ast.Attribute(ast.Name(MODULE, ast.Load()), "kept", ast.Load())
        function = ast.copy_location(ast.Call(kept, [node.func], []), node)
        return ast.copy_location(ast.Call(function, node.args, node.keywords), node)


def _is_at(node: ast.expr, lines: set[int]) -> bool:
    return any(node.lineno <= line <= (node.end_lineno or node.lineno) for line in lines)


def comprehensions_as_loops(function: ast.FunctionDef, lines: set[int]) -> None:
    """`ys = f([g(x) for x in xs])` becomes a loop that fills a list, and `ys = f(list)`.

    A comprehension is one that stands at these lines, with one source. Its names stay its own.
    """
    for parent in [node for node in ast.walk(function) if hasattr(node, "body")]:
        for field in ("body", "orelse", "finalbody"):
            block = getattr(parent, field, None)
            if isinstance(block, list):
                setattr(parent, field, [new for node in block for new in _unrolled(node, lines)])


def _unrolled(node: ast.stmt, lines: set[int]) -> list[ast.stmt]:
    if not isinstance(node, SIMPLE):
        return [node]
    found = [each for each in _once(node) if isinstance(each, (ast.ListComp, ast.GeneratorExp)) and _is_at(each, lines)]
    new: list[ast.stmt] = []
    for each in found:
        (first, *rest) = each.generators
        own = {name.id for name in ast.walk(first.target) if isinstance(name, ast.Name)}
        parts = [first.target, each.elt, *first.ifs]
        inner = [node for part in parts for node in ast.walk(part)]
        taken = {node.arg for node in inner if isinstance(node, ast.arg)}  # by functions made there
        if rest or first.is_async or own & taken:
            continue
        held = f"_list_{each.lineno}_{each.col_offset}"
        for name in inner:
            if isinstance(name, ast.Name) and name.id in own:
                name.id = f"{held}_{name.id}"
        given = ast.Expr(ast.Call(ast.Attribute(ast.Name(held, ast.Load()), "append", ast.Load()), [each.elt], []))
        empty = ast.Assign([ast.Name(held, ast.Store())], ast.List([], ast.Load()))
        turn: ast.stmt = ast.copy_location(given, each.elt)
        for test in reversed(first.ifs):
            turn = ast.copy_location(ast.If(test, [turn], []), test)
        loop = ast.For(first.target, first.iter, [turn], [])
        new += [ast.copy_location(empty, each), ast.copy_location(loop, each)]
        _Instead(each, ast.copy_location(ast.Name(held, ast.Load()), each)).visit(node)
    for each in new:
        ast.fix_missing_locations(each)
    return [*new, node]


def _once(node: ast.AST) -> list[ast.AST]:
    """The parts of a statement that run once: not those in a scope of their own, or behind a condition."""
    children = [] if isinstance(node, (*SCOPES, ast.IfExp, ast.BoolOp)) else list(ast.iter_child_nodes(node))
    return [node, *(part for child in children for part in _once(child))]


class _Instead(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def lists_known(function: ast.FunctionDef, names: set[str]) -> None:
    """Lists of these names, to which loops append, become such as know what that is, and `len` what can tell it."""
    _Lists(names).visit(function)


class _Lists(ast.NodeTransformer):
    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = zip(target.elts, node.value.elts, strict=False)
                node.value.elts = [self.known(name, value) for name, value in pairs]
            else:
                node.value = self.known(target, node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        node.value = node.value and self.known(node.target, node.value)
        return node

    def known(self, target: ast.expr, value: ast.expr) -> ast.expr:
        if not isinstance(target, ast.Name) or target.id not in self.names or not isinstance(value, ast.List):
            return value
        kind = expression(f"{STEPS}.Filled")
        for each in ast.walk(kind):
            ast.copy_location(each, value)
        return ast.copy_location(ast.Call(kind, [value], []), value)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name) or node.func.id != "len" or len(node.args) != 1:
            return node
        size = expression(f"{STEPS}.size")
        for each in ast.walk(size):
            ast.copy_location(each, node)
        return ast.copy_location(ast.Call(size, [node.args[0], ast.copy_location(ast.Constant(0), node)], []), node)
