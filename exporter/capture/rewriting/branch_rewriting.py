"""`if` on the value of a tensor, rewritten so that it is a cond where the test depends on data.

if mask.any():                           def then(y):
    y = y.masked_fill(mask, 0)               y = y.masked_fill(mask, 0)
                                             return (y,)
                                         def other(y):
                                             return (y,)
                                         (y,) = chosen(mask.any(), then, other, (y,))
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence

from exporter.capture.rewriting.loop_heads import NoScanError
from exporter.capture.rewriting.loop_names import bound_before, loaded, read_after, read_first, stored

MODULE = "_branch_steps"
"""The name of the module `branch_steps` in a rewritten function."""

FORBIDDEN = (
    ast.Break,
    ast.Continue,
    ast.Yield,
    ast.YieldFrom,
    ast.Await,
    ast.Global,
    ast.Nonlocal,
    ast.Delete,
    ast.Try,
    ast.NamedExpr,
    ast.Import,
    ast.ImportFrom,
    ast.ClassDef,
)


def branches_at(function: ast.FunctionDef, lines: set[int]) -> list[ast.If]:
    """Each `if` whose test stands at these lines, and those within it or after its return, inner and later ones first.

    The latter may depend on data as well, which is seen only while a branch is captured; if not, they stay what they
    are at run time. So do others with a test of the same text. `y = a if test else b` at these lines becomes a
    statement.
    """
    for block in _blocks(function):
        block[:] = [_as_statement(node, lines) for node in block]
    wanted: set[ast.If] = set()
    every = [node for node in ast.walk(function) if isinstance(node, ast.If)]
    texts = {ast.unparse(node.test) for node in every if _is_at(node.test, lines)}
    for block in _blocks(function):
        for position, node in enumerate(block):
            if isinstance(node, ast.If) and (node in wanted or ast.unparse(node.test) in texts):
                rest = block[position + 1 :] if isinstance(node.body[-1], ast.Return) else []
                wanted |= {each for top in (node, *rest) for each in ast.walk(top) if isinstance(each, ast.If)}
    return sorted(wanted, key=lambda node: (node.lineno, node.col_offset), reverse=True)


def _is_at(test: ast.expr, lines: set[int]) -> bool:
    return any(test.lineno <= line <= (test.end_lineno or test.lineno) for line in lines)


def _as_statement(node: ast.stmt, lines: set[int]) -> ast.stmt:
    value = node.value if isinstance(node, (ast.Assign, ast.Return)) else None
    if not isinstance(value, ast.IfExp) or not _is_at(value.test, lines):
        return node
    branches: list[ast.stmt] = []
    for each in (value.body, value.orelse):
        branches.append(copy.copy(node))
        branches[-1].value = each  # type: ignore[attr-defined]  # an assignment or a return
    return ast.copy_location(ast.If(value.test, branches[:1], branches[1:]), node)


def branches_kept(function: ast.FunctionDef, branches: Sequence[ast.If]) -> bool:
    """Rewrites each of these statements that a cond can express. Whether there was one."""
    found = False
    for number, node in enumerate(branches):
        owner, block = next(
            (each, block) for each, block in _owned_blocks(function) if any(other is node for other in block)
        )
        position = next(i for i, each in enumerate(block) if each is node)
        try:
            outermost = isinstance(owner, ast.FunctionDef)
            new, end = _Branching(function, node, number).statements(block, position, outermost)
        except NoScanError:
            continue
        for statement in new:
            _placed(statement, node)
        block[position:end] = new
        found = True
    if found:
        load = ast.parse(f"from exporter.capture.rewriting import branch_steps as {MODULE}").body[0]
        function.body.insert(0, ast.copy_location(load, function.body[0]))
    return found


def _owned_blocks(function: ast.FunctionDef) -> list[tuple[ast.AST, list[ast.stmt]]]:
    fields = ("body", "orelse", "finalbody")
    blocks = [(node, getattr(node, field, None)) for node in ast.walk(function) for field in fields]
    return [(node, block) for node, block in blocks if isinstance(block, list)]


def _blocks(function: ast.FunctionDef) -> list[list[ast.stmt]]:
    return [block for _, block in _owned_blocks(function)]


def _placed(statement: ast.stmt, like: ast.If) -> None:
    for node in ast.walk(statement):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, like.test)


class _Branching:
    """One `if`: what its branches do with names, and the statements that stand in its place."""

    def __init__(self, function: ast.FunctionDef, node: ast.If, number: int) -> None:
        self.function, self.node, self.number = function, node, number
        self.before = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)} | {
            name.id
            for name in ast.walk(function)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store) and name.lineno < node.lineno
        }

    def statements(self, block: list[ast.stmt], position: int, outermost: bool) -> tuple[list[ast.stmt], int]:
        """What to put in the place of the block's statements from the position on, and up to which one."""
        node, rest = self.node, block[position + 1 :]
        if not node.orelse and isinstance(node.body[-1], ast.Raise):
            test = ast.Call(_step("refused"), [self.test()], [])
            return [ast.If(test, node.body, [])], position + 1
        if isinstance(node.body[-1], ast.Return):
            return self.returned(node.orelse or rest, outermost), len(block)
        return self.assigned(), position + 1

    def returned(self, other: list[ast.stmt], outermost: bool) -> list[ast.stmt]:
        """Both branches end in a return."""
        if not outermost or not other or not isinstance(other[-1], ast.Return):
            raise NoScanError
        for body in (self.node.body, other):
            _check(body[:-1])
            if _written(body) or _added_to(body) & {each.arg for each in self.function.args.args}:
                raise NoScanError
        names = sorted((read_first(self.node.body) & stored(self.node.body)) | (read_first(other) & stored(other)))
        seen = self.seen(self.node.body, other, names)
        then, otherwise = (
            self.function_of(kind, [*names, *seen], body) for kind, body in (("then", self.node.body), ("else", other))
        )
        return [then, otherwise, ast.Return(self.call(names, seen))]

    def assigned(self) -> list[ast.stmt]:
        body, other = self.node.body, self.node.orelse
        for each in (body, other):
            _check(each)
        added = _added_to([*body, *other])
        bound, written = (stored(body) | stored(other)) - added, _written([*body, *other]) | added
        after = read_after(self.function, self.node) | read_first(body) | read_first(other)  # type: ignore[arg-type]
        given = sorted((bound & after) | written)
        passed = sorted((bound | written) & self.before)
        both = stored(body) & stored(other)
        if written & bound or not written <= self.before or any(n not in passed and n not in both for n in given):
            raise NoScanError
        result = ast.Return(_tuple(given, ast.Load()))
        seen = self.seen(body, other, passed)
        then = self.function_of("then", [*passed, *seen], [*body, result])
        otherwise = self.function_of("else", [*passed, *seen], [*other, copy.deepcopy(result)])
        held = [self.name(f"new_{name}") if name in written else name for name in given]
        taken = ast.Assign([_tuple(held, ast.Store())], self.call(passed, seen))
        back = [
            ast.parse(f"{name} = {MODULE}.written({name}, {self.name(f'new_{name}')})").body[0]
            for name in sorted(written)
        ]
        return [then, otherwise, taken, *_bare(back)]

    def seen(self, body: list[ast.stmt], other: list[ast.stmt], passed: Sequence[str]) -> list[str]:
        """The names that the branches only read, and that have a value by then: among them may be sizes."""
        read = (loaded(body) | loaded(other)) - stored(body) - stored(other) - set(passed)
        return sorted(read & bound_before(self.function, self.node))

    def call(self, names: Sequence[str], seen: Sequence[str]) -> ast.expr:
        arguments: list[ast.expr] = [ast.Name(self.name(each), ast.Load()) for each in ("then", "else")]
        held = [_tuple(each, ast.Load()) for each in (names, seen)]
        return ast.Call(_step("chosen"), [self.test(), *arguments, *held], [])

    def function_of(self, kind: str, names: Sequence[str], body: Sequence[ast.stmt]) -> ast.FunctionDef:
        (made,) = _bare(ast.parse(f"def {self.name(kind)}({', '.join(names)}):\n    pass").body)
        assert isinstance(made, ast.FunctionDef)
        made.body = list(body)
        return made

    def name(self, kind: str) -> str:
        return f"_if_{self.number}_{kind}"

    def test(self) -> ast.expr:
        return _Tests().visit(copy.deepcopy(self.node.test))


class _Tests(ast.NodeTransformer):
    """`not`, `and`, `or` and `bool` of a test, which make truth values of tensors."""

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return ast.copy_location(ast.Call(_step("not_"), [node.operand], []), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        result = node.values[0]
        for value in node.values[1:]:
            nothing = ast.arguments([], [], None, [], [], None, [])
            later = ast.copy_location(ast.Lambda(nothing, value), value)
            step = _step("and_" if isinstance(node.op, ast.And) else "or_")
            result = ast.copy_location(ast.Call(step, [result, later], []), node)
        return result

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        plain = isinstance(node.func, ast.Name) and node.func.id == "bool" and len(node.args) == 1
        return node.args[0] if plain else node


def _check(body: Sequence[ast.stmt]) -> None:
    """Raises NoScanError where a branch does what cannot be undone if the other one is taken."""
    for node in (each for top in body for each in _unmade(top)):
        if isinstance(node, (*FORBIDDEN, ast.Return, ast.Raise)):
            raise NoScanError
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            raise NoScanError
        if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant) and not _in_place(node):
            raise NoScanError


def _unmade(node: ast.AST) -> Iterator[ast.AST]:
    """The node with all in it, other than functions that stand for branches: they were looked at before."""
    if isinstance(node, ast.FunctionDef) and node.name.startswith("_if_"):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _unmade(child)


def _written(body: Sequence[ast.stmt]) -> set[str]:
    """The names of tensors that the statements write to: `x[i] = y`, `x += y`, `x.add_(y)`."""
    found: set[str] = set()
    for node in (each for top in body for each in ast.walk(top)):
        target = node.value if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) else _in_place(node)
        if target is None:
            continue
        if not isinstance(target, ast.Name):
            raise NoScanError
        found.add(target.id)
    return found - {name for name in found if name in stored(body)}


def _added_to(body: Sequence[ast.stmt]) -> set[str]:
    """The names to which the statements only add, as `x += y` does, which writes to a tensor."""
    nodes = [node for top in body for node in ast.walk(top)]
    added = [node.target.id for node in nodes if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)]
    back = [node for node in nodes if isinstance(node, ast.Assign) and _is_written_back(node.value)]
    added += [name.id for node in back for name in node.targets if isinstance(name, ast.Name)]
    bound = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return {name for name in added if added.count(name) == bound.count(name)}


def _is_written_back(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) == f"{MODULE}.written"


def _in_place(node: ast.AST) -> ast.expr | None:
    """What `x.add_(y)` writes to."""
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        name = call.func.attr
        return call.func.value if name.endswith("_") and not name.endswith("__") else None
    return None


def _bare(nodes: list[ast.stmt]) -> list[ast.stmt]:
    """The statements without the places that they had where they were parsed."""
    for node in (each for top in nodes for each in ast.walk(top)):
        for attribute in node._attributes:
            if hasattr(node, attribute):
                delattr(node, attribute)
    return nodes


def _step(name: str) -> ast.expr:
    return ast.Attribute(ast.Name(MODULE, ast.Load()), name, ast.Load())


def _tuple(names: Sequence[str], ctx: ast.expr_context) -> ast.expr:
    return ast.Tuple([ast.Name(name, type(ctx)()) for name in names], ctx)
