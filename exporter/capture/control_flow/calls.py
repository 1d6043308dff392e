"""Lines that make a number of a dynamic size: calls of `int` and the like, and comprehensions over a dynamic size."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence

from fxport.exporter.capture.analysis.names import SCOPES, own_nodes
from fxport.exporter.capture.control_flow.conditions import binds
from fxport.exporter.capture.control_flow.syntax import call, deferred, is_at, left_early, placed

OF_MATH = frozenset(
    (
        *(
            "exp",
            "exp2",
            "pow",
            "isqrt",
            "floor",
            "ceil",
            "trunc",
            "sqrt",
            "cbrt",
            "log",
            "log2",
            "log10",
            "log1p",
            "expm1",
        ),
        *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "atan2"),
        *("isnan", "isinf", "isfinite", "isclose", "erf", "erfc", "gamma", "lgamma", "fabs", "copysign", "hypot"),
        *("dist", "fmod", "remainder", "degrees", "radians", "gcd", "lcm", "comb", "perm", "factorial", "modf"),
        *("frexp", "ldexp", "fsum", "sumprod", "fma", "nextafter", "ulp", "prod", "trunc"),
    )
)
"""Names of functions of numbers alone: where one is asked for a number from data, so may all of a function be."""

NAMES = OF_MATH | frozenset(
    (
        *("int", "float", "len", "range", "round", "sum", "max", "min", "bool", "any", "all", "sorted", "list"),
        *("tuple", "unbind", "split", "pad_sequence", "enumerate", "zip", "reversed", "tolist", "count", "index"),
        *("LongTensor", "IntTensor", "FloatTensor", "Tensor", "map", "reduce"),
        *("get", "setdefault", "add", "_assert"),
    )
)
"""The names under which the functions of `kept_calls` are called, mostly; a test compares them."""

ENDING_EARLY = frozenset({"any", "all", "next"})
"""Functions that need not come to all elements of what they are given."""

SIMPLE = (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr)
"""Statements that run their expressions once."""

HEADS: Mapping[type[ast.stmt], tuple[str, ...]] = {
    ast.If: ("test",),
    ast.For: ("iter",),
    ast.AugAssign: ("value",),
}
"""Of other statements, the expressions that run once and before all else that they do."""


def calls_kept(function: ast.FunctionDef, lines: set[int]) -> bool:
    """Write `int(n)` at these lines as `_steps.kept(int)(n)` and return whether there was such a call."""
    visitor = _Calls(lines)
    function.body = [visitor.visit(node) for node in function.body]
    return visitor.found


def calls_kept_in(value: ast.expr) -> ast.expr:
    """Return the expression with all such calls in it kept."""
    return _Calls(None).visit(copy.deepcopy(value))


class _Calls(ast.NodeTransformer):
    def __init__(self, lines: set[int] | None) -> None:
        self.lines, self.found = lines, False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
        if name == "zip" and len(node.args) == 1 and isinstance(node.args[0], ast.Starred) and self.is_at(node):
            self.found = True
            return placed(call("transposed", node.func, node.args[0].value), node)
        if name not in NAMES or not (name in OF_MATH or self.is_at(node)):
            return node
        self.found = True
        return placed(ast.Call(call("kept", node.func), node.args, node.keywords), node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """`first, *others = x`, of as many rows as a dynamic size has."""
        self.generic_visit(node)
        names = node.targets[0]
        elements = names.elts if len(node.targets) == 1 and isinstance(names, (ast.Tuple, ast.List)) else []
        starred = next((i for i, each in enumerate(elements) if isinstance(each, ast.Starred)), None)
        if starred is None or not self.is_at(node):
            return node
        self.found = True
        around = (ast.Constant(starred), ast.Constant(len(elements) - starred - 1))
        node.value = placed(call("unpacked", node.value, *around), node.value)
        elements[starred] = elements[starred].value  # type: ignore[attr-defined]  # with a star, as just seen
        return node

    def is_at(self, node: ast.expr | ast.stmt) -> bool:
        return self.lines is None or is_at(node, self.lines)

    def visit_List(self, node: ast.List) -> ast.AST:
        """`[first, *others]`, of which there may be as many as a dynamic size has."""
        self.generic_visit(node)
        several = [isinstance(each, ast.Starred) for each in node.elts]
        values = [each.value if isinstance(each, ast.Starred) else each for each in node.elts]
        if not any(several) or not isinstance(node.ctx, ast.Load) or not self.is_at(node) or binds(values):
            return node
        self.found = True
        parts = [
            ast.Tuple([ast.Constant(many), deferred(value)], ast.Load())
            for many, value in zip(several, values, strict=True)
        ]
        return placed(call("display", *parts), node)


def comprehensions_as_loops(function: ast.FunctionDef, lines: set[int]) -> None:
    """`ys = f([g(x) for x in xs])` becomes a loop that fills a list, and `ys = f(list)`.

    A comprehension is one that stands at these lines, also one within another. Its names stay its own.
    """
    for parent in [node for node in ast.walk(function) if hasattr(node, "body")]:
        for field in ("body", "orelse", "finalbody"):
            block = getattr(parent, field, None)
            if isinstance(block, list):
                setattr(parent, field, [new for node in block for new in _unrolled(node, lines)])


def _unrolled(node: ast.stmt, lines: set[int]) -> list[ast.stmt]:
    fields = ("value",) if isinstance(node, SIMPLE) else HEADS.get(type(node), ())
    heads = [head for head in (getattr(node, field) for field in fields) if head is not None]
    once = [part for head in heads for part in _once(head)]
    found = [each for each in once if isinstance(each, (ast.ListComp, ast.GeneratorExp)) and is_at(each, lines)]
    new: list[ast.stmt] = []
    for each in found:
        (first, *rest) = each.generators
        targets = [source.target for source in each.generators]
        own = {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        tests = [test for source in each.generators for test in source.ifs]
        parts = [*targets, each.elt, *tests, *(source.iter for source in rest)]
        inner = [node for part in parts for node in ast.walk(part)]
        taken = {node.arg for node in inner if isinstance(node, ast.arg)}  # by functions made there
        ends_early = any(_ends_early(part, each) for part in once)
        if any(source.is_async for source in each.generators) or own & taken or (rest and ends_early):
            continue
        earlier = _computed_before(heads, each)
        if any(isinstance(part, ast.Starred) for part in earlier):
            continue
        for i, part in enumerate(earlier):
            name = f"_before_{each.lineno}_{each.col_offset}_{i}"
            new.append(placed(ast.Assign([ast.Name(name, ast.Store())], part), part))
            _Instead(part, ast.copy_location(ast.Name(name, ast.Load()), part)).visit(node)
        held = f"_list_{each.lineno}_{each.col_offset}"
        for name in inner:
            if isinstance(name, ast.Name) and name.id in own:
                name.id = f"{held}_{name.id}"
        given = ast.Expr(ast.Call(ast.Attribute(ast.Name(held, ast.Load()), "append", ast.Load()), [each.elt], []))
        empty = ast.Assign([ast.Name(held, ast.Store())], ast.List([], ast.Load()))
        turn: list[ast.stmt] = _unrolled(ast.copy_location(given, each.elt), lines)
        for source in reversed(each.generators):
            for test in reversed(source.ifs):
                turn = [ast.copy_location(ast.If(test, turn, []), test)]
            turn = [ast.copy_location(ast.For(source.target, source.iter, turn, []), each)]
        lines_of_it = [empty, *turn]
        if ends_early:
            turn[0].iter = left_early(first.iter)  # type: ignore[attr-defined]  # a loop, as just made
            state = ast.Name(f"{held}_state", ast.Store())
            read = deferred(copy.deepcopy(ast.Tuple([each.elt, *first.ifs], ast.Load())))
            lines_of_it.insert(0, ast.Assign([state], call("state_read_by", read)))
            lines_of_it.append(ast.Expr(call("require_unchanged", ast.Name(state.id, ast.Load()), ast.Constant(held))))
        new += [placed(line, each) for line in lines_of_it]
        _Instead(each, ast.copy_location(ast.Name(held, ast.Load()), each)).visit(node)
    for each in new:
        ast.fix_missing_locations(each)
    return [*new, node]


def _computed_before(heads: Sequence[ast.AST], target: ast.expr) -> list[ast.expr]:
    """Return what Python computes before an expression of a statement and what may change something, in its order."""
    ways = (_before(head, target) for head in heads)
    found = next((each for each in ways if each is not None), [])
    parts: list[ast.expr] = []
    for part in found:
        while isinstance(part, (ast.Attribute, ast.keyword)):
            part = part.value  # of `f(x).g`, what is computed
        if isinstance(part, ast.expr) and any(isinstance(each, (ast.Call, ast.NamedExpr)) for each in ast.walk(part)):
            parts.append(part)
    return parts


def _before(node: ast.AST, target: ast.expr) -> list[ast.AST] | None:
    """Return the parts of an expression that come before another part of it; None where it has no such part."""
    if node is target:
        return []
    seen: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        inner = _before(child, target)
        if inner is not None:
            return [*seen, *inner]
        seen.append(child)
    return None


def _ends_early(node: ast.AST, source: ast.expr) -> bool:
    """Return whether a node is a call that may not come to all elements of what it is given: `any(...)`."""
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args[:1] == [source]
    return is_call and node.func.id in ENDING_EARLY  # type: ignore[attr-defined]  # a call, as just seen


def _once(node: ast.AST) -> list[ast.AST]:
    """Return the parts of a statement that run once: not those in a scope of their own, or behind a condition."""
    children: list[ast.AST] = [] if isinstance(node, SCOPES) else list(ast.iter_child_nodes(node))
    if isinstance(node, ast.IfExp):
        children = [node.test]
    elif isinstance(node, ast.BoolOp):
        children = [node.values[0]]
    return [node, *(part for child in children for part in _once(child))]


class _Instead(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def appended_names(body: ast.AST) -> set[str]:
    """Return the names on which, or on an item of which, `append`, `extend`, `insert` or `+=` is called."""
    found: set[str] = set()
    for node in ast.walk(body):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        function = node.func if isinstance(node, ast.Call) else None
        if isinstance(function, ast.Attribute) and function.attr in ("append", "extend", "insert"):
            found |= _holder_of(function.value)
    return found


def _holder_of(value: ast.expr) -> set[str]:
    """Return the name of a list, or of what holds it: `found` of `found["boxes"]`."""
    while isinstance(value, ast.Subscript):
        value = value.value
    return {value.id} if isinstance(value, ast.Name) else set()


def lists_symbolic(function: ast.FunctionDef) -> None:
    """Let lists to which rewritten statements append know how many elements they have; `len` asks them."""
    parts = (node for node in own_nodes(function) if isinstance(node, ast.FunctionDef) and node is not function)
    if names := set().union(*map(appended_names, parts)):
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
        return self.made(value) if isinstance(target, ast.Name) and target.id in self.names else value

    def made(self, value: ast.expr) -> ast.expr:
        """Write a display of a list, and those of lists in it or in a dict."""
        if isinstance(value, ast.Dict):
            value.values = [*map(self.made, value.values)]
        elif isinstance(value, ast.DictComp):
            value.value = self.made(value.value)
        elif isinstance(value, ast.List):
            value.elts = [*map(self.made, value.elts)]
            return placed(call("ScanList", value), value)
        return value

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name) or node.func.id != "len" or len(node.args) != 1:
            return node
        return placed(ast.Call(call("kept", node.func), node.args, []), node)
