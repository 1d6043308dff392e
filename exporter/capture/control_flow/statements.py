"""Templates of statements: `if`, `while` and `for` as calls that run their parts as functions of the same variables.

if mask.any():                           def _if_0_then():
    y = y.masked_fill(mask, 0)               nonlocal y
                                             y = y.masked_fill(mask, 0)
                                         def _if_0_else():
                                             nonlocal y
                                         _steps.chosen(mask.any(), _if_0_then, _if_0_else, dead=())

The parts share the variables of the function, so that other functions in it see what they bind. What a part changes is
seen while it runs; see `effects`. `dead` are the names that they bind and that nothing reads behind the statement.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence

from fxport.exporter.capture.analysis.liveness import Live
from fxport.exporter.capture.analysis.names import arguments, bound, declared, own_nodes, read
from fxport.exporter.capture.control_flow.calls import calls_kept_in
from fxport.exporter.capture.control_flow.conditions import test_of
from fxport.exporter.capture.control_flow.counting import counts_by
from fxport.exporter.capture.control_flow.jumps import jumps_of
from fxport.exporter.capture.control_flow.syntax import (
    call,
    deferred,
    expression,
    is_at,
    is_call_of,
    names_tuple,
    placed,
    statements,
)

GIVEN = "_fxport_given"
"""The variable that holds what the caller of a function gave it; see `Local`."""

Kept = ast.If | ast.While | ast.For
Block = list[ast.stmt]


def wanted_statements(function: ast.FunctionDef, lines: set[int]) -> set[Kept]:
    """Return the statements to rewrite: each `for`, `while` and `if` at these lines.

    What stands within such an `if` or `while`, or follows its return, may depend on data as well, which is seen only
    while a branch is captured; if it does not, Python decides there as ever. So do others with a test of the same text.
    """
    nodes = list(own_nodes(function))
    tests = [node for node in nodes if isinstance(node, (ast.If, ast.While))]
    texts = {ast.unparse(node.test) for node in tests if getattr(node, "wanted", False) or is_at(node.test, lines)}
    loops = (node for node in nodes if isinstance(node, ast.For))
    wanted: set[Kept] = {node for node in loops if getattr(node, "wanted", False) or _is_head_at(node, lines)}
    for block in blocks_of(function):
        for position, node in enumerate(block):
            if isinstance(node, (ast.If, ast.While)) and (node in wanted or ast.unparse(node.test) in texts):
                rest = block[position + 1 :] if isinstance(node.body[-1], ast.Return) else []
                wanted |= {
                    each for top in (node, *rest) for each in own_nodes(top) if isinstance(each, (ast.If, ast.While))
                }
    return {node for node in wanted if not getattr(node, "plain_only", False)}


def blocks_of(function: ast.FunctionDef) -> list[Block]:
    """Return the blocks of statements of the function itself, outermost first."""
    holders = [node for node in own_nodes(function) if node is function or not isinstance(node, ast.FunctionDef)]
    fields = [getattr(node, field, None) for node in holders for field in ("body", "orelse", "finalbody")]
    return [each for each in fields if isinstance(each, list)]


class Statements:
    """Rewrites the wanted statements of one function, inner ones first.

    `reasons` gets the lines of statements that cannot be rewritten, each with the reason.
    """

    def __init__(
        self,
        function: ast.FunctionDef,
        wanted: set[Kept],
        live: Mapping[ast.stmt, Live],
        reasons: dict[int, str],
    ) -> None:
        self.function, self.wanted, self.live, self.reasons = function, wanted, live, reasons
        self.globals = declared(function, ast.Global)
        outer = self.globals | declared(function, ast.Nonlocal) | set(arguments(function))
        self.own = bound(function.body) - outer
        """The variables that the function binds itself, and its caller does not."""
        self.shared: set[str] = set()
        """The names that parts bind for the function around them."""
        self.parts: set[str] = set()
        """The names of the parts themselves, each of which is used where it is made."""
        self.count = 0
        self.returns = False
        """True if branches return, so that `GIVEN` has to be known."""

    def rewrite(self) -> bool:
        """Rewrite them in place and return whether there was one."""
        self.function.body = self.block(self.function.body)
        return self.count > 0

    def block(self, body: Sequence[ast.stmt]) -> Block:
        out: Block = []
        for node in reversed(body):
            out = self.statement(node, out)
        return out

    def statement(self, node: ast.stmt, rest: Block) -> Block:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return [node, *rest]  # rewritten by itself
        names = bound([node])
        for field in ("body", "orelse", "finalbody"):
            inner = getattr(node, field, None)
            if isinstance(inner, list) and inner:
                setattr(node, field, self.block(inner))
        for part in (*getattr(node, "handlers", []), *getattr(node, "cases", [])):
            part.body = self.block(part.body)
        if node not in self.wanted:
            return [node, *rest]
        template = TEMPLATES[type(node)]
        try:
            made, left = template(self, node, names, rest)
        except _Unfit as unfit:
            self.reasons[node.lineno] = str(unfit)
            return [node, *rest]
        self.count += 1
        self.shared |= names - self.globals
        return [*(placed(each, node.iter if isinstance(node, ast.For) else node.test) for each in made), *left]  # type: ignore[attr-defined]

    def choice(self, node: ast.If, names: set[str], rest: Block) -> tuple[Block, Block]:
        if not node.orelse and isinstance(node.body[-1], ast.Raise):
            test = call("refused", test_of(node.test), *_raised(node.body[-1]))
            return [ast.copy_location(ast.If(test, node.body, []), node)], rest
        returns = isinstance(node.body[-1], ast.Return)
        other = node.orelse or (rest if returns else [])
        if returns and len(other) == 1 and isinstance(other[0], ast.Raise):
            fails = placed(ast.UnaryOp(ast.Not(), node.test), node.test)
            test = call("refused", test_of(fails), *_raised(other[0]))
            return [ast.copy_location(ast.If(test, other, []), node), *node.body], []
        if returns and not (other and isinstance(other[-1], ast.Return)):
            raise _Unfit("one of its branches returns and the other goes on")
        ends = -1 if returns else None
        _require_movable(node.body[:ends])
        _require_movable(other[:ends])
        names = names | (bound(other) - self.parts)
        self.shared |= names - self.globals
        arms = [self.part("if", kind, names, arm) for kind, arm in (("then", node.body), ("else", other))]
        dead = names if returns else names - self.live[node].after
        functions = [ast.Name(arm.name, ast.Load()) for arm in arms]
        more = {"dead": names_tuple(sorted(dead))}
        if returns:
            more["local"] = call("Local", ast.Name(GIVEN, ast.Load()), names_tuple(sorted(self.own)))
            self.returns = True
        taken = call("chosen", test_of(node.test), *functions, **more)
        end = ast.Return(taken) if returns else ast.Expr(taken)
        return [*arms, end], [] if returns and not node.orelse else rest

    def repetition(self, node: ast.While, names: set[str], rest: Block) -> tuple[Block, Block]:
        if node.orelse:
            raise _Unfit("it is a loop with an else")
        body = [each for each in node.body if not getattr(each, "plain_only", False)]
        _require_movable(body)
        dead = sorted(names - self.live[node].inside - self.live[node].after)
        test = self.part("while", "test", set(), [ast.Return(test_of(node.test))])
        turn = self.part("while", "turn", names, body)
        functions = [ast.Name(each.name, ast.Load()) for each in (test, turn)]
        counts = counts_by(node)
        if counts is None:
            return [test, turn, ast.Expr(call("repeated", *functions, dead=names_tuple(dead)))], rest
        held, end, further, step = counts
        item = expression("_item")
        taken = [placed(ast.Assign([ast.Name(held.id, ast.Store())], item), held)] if isinstance(held, ast.Name) else []
        of_number = self.part("while", "number", names, [*taken, ast.Expr(ast.Call(functions[1], [], []))])
        of_number.args.args.append(ast.arg("_item"))
        last = placed(ast.BinOp(end, ast.Add(), ast.Constant(further)), end) if further else end
        given = [*functions, ast.Name(of_number.name, ast.Load()), *(deferred(test_of(each)) for each in (held, last))]
        late = sorted((self.live[node].after - self.live[node].inside) & names)
        more = {"dead": names_tuple(dead), "late": names_tuple(late)}
        return [test, turn, of_number, ast.Expr(call("counted", *given, ast.Constant(step), **more))], rest

    def iteration(self, node: ast.For, names: set[str], rest: Block) -> tuple[Block, Block]:
        if node.orelse:
            raise _Unfit("it is a loop with an else and a break")
        body = [each for each in node.body if not getattr(each, "plain_only", False)]
        _require_movable(body)
        live = self.live[node]
        taken = placed(ast.Assign([node.target], expression("_item")), node.target)
        turn = self.part("for", "turn", names, [taken, *body])
        turn.args.args.append(ast.arg("_item"))
        stop = getattr(node, "stop", None)
        given = [calls_kept_in(node.iter), ast.Name(turn.name, ast.Load())]
        more = {"dead": names_tuple(sorted(names - live.inside - live.after))}
        more["late"] = names_tuple(sorted((live.after - live.inside) & names))
        if stop is not None:
            more["stopped"] = deferred(placed(ast.Name(stop, ast.Load()), node.iter))
        return [turn, ast.Expr(call("for_each", *given, **more))], rest

    def part(self, kind: str, role: str, names: set[str], body: Sequence[ast.stmt]) -> ast.FunctionDef:
        """Make a function of statements, which binds these names for the function around it."""
        (made,) = statements(f"def _{kind}_{self.count}_{role}():\n    pass")
        assert isinstance(made, ast.FunctionDef)
        made.part = True  # type: ignore[attr-defined]  # no function of the user's
        self.parts.add(made.name)
        found: Block = []
        if outer := sorted(names - self.globals):
            found.append(ast.Nonlocal(outer))
        if names & self.globals:
            found.append(ast.Global(sorted(names & self.globals)))
        made.body = [*found, *body] or made.body
        return made


def _raised(error: ast.Raise) -> list[ast.expr]:
    """Return a function of the type that is raised, where the statement names one."""
    kind = error.exc.func if isinstance(error.exc, ast.Call) else error.exc
    return [deferred(copy.deepcopy(kind))] if isinstance(kind, (ast.Name, ast.Attribute)) else []


class _Unfit(Exception):
    """The statement does something that no part of a function can do for it."""


FORBIDDEN: Mapping[type[ast.AST], str] = {
    ast.Return: "it returns on one of its ways only",
    ast.Raise: "it raises an error on one of its ways",
    ast.Global: "it declares a global name",
    ast.Nonlocal: "it declares a name of the function around",
}


def _require_movable(body: Sequence[ast.stmt]) -> None:
    jumps = [type(jump).__name__.lower() for jump in jumps_of(body)]
    if jumps:
        raise _Unfit(f"it holds a {jumps[0]} that cannot be written as a condition")
    for node in (each for top in body for each in _unrefused(top)):
        if type(node) in FORBIDDEN:
            raise _Unfit(FORBIDDEN[type(node)])


def _unrefused(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all in it, without functions and without errors behind a test that `refused` has seen."""
    yield node
    if isinstance(node, ast.If) and is_call_of(node.test, "refused"):
        return
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        for child in ast.iter_child_nodes(node):
            yield from _unrefused(child)


def _is_head_at(loop: ast.For, lines: set[int]) -> bool:
    return any(loop.lineno <= line <= (loop.iter.end_lineno or loop.lineno) for line in lines)


TEMPLATES = {ast.If: Statements.choice, ast.While: Statements.repetition, ast.For: Statements.iteration}


def given_to(function: ast.FunctionDef) -> ast.expr:
    """Make what leads to all that the function is given: `lambda given=(self, x): (CACHE, None.shape)`."""
    own = bound(function.body) | set(arguments(function))
    names = sorted(read(function.body) - own)
    attributes = sorted({node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)})
    body = ", ".join([*names, *(f"None.{each}" for each in attributes)])
    parameters = "".join(f"{each}, " for each in arguments(function))
    return expression(f"lambda given=({parameters}): ({body})")


def with_shared_names(function: ast.FunctionDef, names: set[str], given: ast.expr | None) -> None:
    """Let the function begin with the module that it calls, and bind the names that its parts share.

    Python takes a name for one of the function only if a statement of the function itself binds it. `given` is what
    `given_to` made, where a part needs it.
    """
    own = sorted(names - declared(function, ast.Nonlocal))
    text = "from fxport.exporter.capture.control_flow import steps as _steps\n"
    if own:
        text += f"if False:\n    {' = '.join(own)} = None\n"
    made = [] if given is None else [ast.Assign([ast.Name(GIVEN, ast.Store())], given)]
    function.body[:0] = [placed(each, function.body[0]) for each in made]
    function.body[:0] = [placed(each, function.body[0]) for each in copy.deepcopy(statements(text))]
