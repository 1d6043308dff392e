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
from collections.abc import Sequence

from exporter.capture.control_flow.appending import Appends
from exporter.capture.control_flow.conditions import step, test_of
from exporter.capture.control_flow.effects import (
    MODULE,
    added_to,
    arguments_of,
    attribute_holders,
    check,
    held_by,
    names_of,
    without_sums,
    written,
)
from exporter.capture.control_flow.jumps import is_wanted
from exporter.capture.control_flow.loop_heads import STEPS, NoScanError
from exporter.capture.control_flow.loop_names import loaded, own_nodes, read_after, read_first, stored, unseen

Kept = ast.If | ast.While
ELSEWHERE = (ast.Nonlocal, ast.Global)
"""Statements that name what is bound in another function."""


def branches_at(function: ast.FunctionDef, lines: set[int]) -> list[Kept]:
    """Each `if` and `while` whose test stands at these lines, and those within it or after its return, inner and later
    ones first.

    The latter may depend on data as well, which is seen only while a branch is captured; if not, they stay what they
    are at run time. So do others with a test of the same text.
    """
    wanted: set[Kept] = set()
    every = [node for node in own_nodes(function) if isinstance(node, Kept)]
    texts = {ast.unparse(node.test) for node in every if getattr(node, "wanted", False) or is_wanted(node.test, lines)}
    for block in _blocks(function):
        for position, node in enumerate(block):
            if isinstance(node, Kept) and (node in wanted or ast.unparse(node.test) in texts):
                rest = block[position + 1 :] if isinstance(node.body[-1], ast.Return) else []
                wanted |= {each for top in (node, *rest) for each in own_nodes(top) if isinstance(each, Kept)}
    found = [node for node in own_nodes(function) if node in wanted and not getattr(node, "plain_only", False)]
    return list(reversed(found))  # type: ignore[arg-type]  # as they are in the set


def branches_kept(function: ast.FunctionDef, branches: Sequence[Kept]) -> bool:
    """Rewrites each of these statements that a cond can express. Whether there was one."""
    found = False
    for number, node in enumerate(branches):
        block = next(block for block in _blocks(function) if any(other is node for other in block))
        position = next(i for i, each in enumerate(block) if each is node)
        try:
            if isinstance(node, ast.While):
                new, end = _Repeating(function, node, number).statements(), position + 1
            else:
                new, end = _Branching(function, node, number).statements(block, position)
        except NoScanError:
            continue
        for statement in new:
            _placed(statement, node)
        block[position:end] = new
        found = True
    return found


def names_given(function: ast.FunctionDef) -> None:
    """Lets a rewritten function begin with the module that it calls, and with names that may not be bound as such."""
    made = [node for node in own_nodes(function) if isinstance(node, ast.FunctionDef)]
    elsewhere = {name for node in own_nodes(function) if isinstance(node, ELSEWHERE) for name in node.names}
    names = {name for node in made for name in getattr(node, "unset", ())} - elsewhere
    first = function.body[0]
    text = f"from exporter.capture.control_flow import branch_steps as {MODULE}, loop_steps as {STEPS}\n" + "".join(
        f"{name} = {MODULE}.UNSET\n" for name in sorted(names)
    )
    for statement in reversed(_bare(ast.parse(text).body)):
        for node in ast.walk(statement):
            if "lineno" in node._attributes:
                ast.copy_location(node, first)
        function.body.insert(0, statement)


def _blocks(function: ast.FunctionDef) -> list[list[ast.stmt]]:
    holders = [node for node in own_nodes(function) if node is function or not isinstance(node, ast.FunctionDef)]
    blocks = [getattr(node, field, None) for node in holders for field in ("body", "orelse", "finalbody")]
    return [block for block in blocks if isinstance(block, list)]


def _placed(statement: ast.stmt, like: Kept) -> None:
    for node in ast.walk(statement):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, like.test)


class _Branching:
    """One `if`: what its branches do with names, and the statements that stand in its place."""

    def __init__(self, function: ast.FunctionDef, node: ast.If, number: int) -> None:
        self.function, self.node, self.number = function, node, number
        self.arguments = arguments_of(function)
        self.known = names_of(function)

    def statements(self, block: list[ast.stmt], position: int) -> tuple[list[ast.stmt], int]:
        """What to put in the place of the block's statements from the position on, and up to which one."""
        node, rest = self.node, block[position + 1 :]
        if not node.orelse and isinstance(node.body[-1], ast.Raise):
            test = ast.Call(step("refused"), [test_of(self.node.test)], [])
            return [ast.If(test, node.body, [])], position + 1
        if isinstance(node.body[-1], ast.Return):
            return self.returned(node.orelse or rest), len(block)
        return self.assigned(), position + 1

    def returned(self, other: list[ast.stmt]) -> list[ast.stmt]:
        """Both branches end in a return."""
        if not other or not isinstance(other[-1], ast.Return):
            raise NoScanError
        for body in (self.node.body, other):
            check(body[:-1])
            if written(body) or added_to(body) & self.arguments or unseen(self.function, body):
                raise NoScanError
        names = sorted((read_first(self.node.body) & stored(self.node.body)) | (read_first(other) & stored(other)))
        then, otherwise = self.function_of("then", names, self.node.body), self.function_of("else", names, other)
        then.unset = set(names) - self.arguments  # type: ignore[attr-defined]  # read by `names_given`
        return [then, otherwise, ast.Return(self.call(names))]

    def assigned(self) -> list[ast.stmt]:
        """What is set as an attribute of a module is a part of what `chosen` does."""
        appends = Appends(f"_if_{self.number}")
        arms = [appends.taken_out(arm) for arm in (self.node.body, self.node.orelse)]
        body, other = map(without_sums, arms)
        for each in (body, other):
            check(each)
        added = added_to([*body, *other])
        holders = attribute_holders([*body, *other])
        bound = (stored(body) | stored(other)) - added
        changed = written([*body, *other]) | added | (holders & self.known)
        after = read_after(self.function, self.node)
        given = sorted((bound & (after | set(appends.names))) | changed)
        if changed & bound or any(unseen(self.function, arm) for arm in (body, other)):
            raise NoScanError
        passed = sorted({*given, *((read_first(body) | read_first(other)) & bound)})
        results = _parsed(f"return {_listed(given)}")
        then = self.function_of("then", passed, [*body, *results])
        otherwise = self.function_of("else", passed, [*other, *copy.deepcopy(results)])
        then.unset = set(passed) - self.arguments  # type: ignore[attr-defined]  # read by `names_given`
        held = [self.name(f"new_{name}") if name in changed else name for name in given]
        taken = ast.Assign([_tuple(held, ast.Store())], self.call(passed))
        back = [f"{name} = {MODULE}.written({name}, {self.name(f'new_{name}')})" for name in sorted(changed)]
        before = [*_parsed(held_by(holders)), *_parsed(appends.before())]
        return [*before, then, otherwise, taken, *_parsed("\n".join([*back, appends.after()]))]

    def call(self, names: Sequence[str]) -> ast.expr:
        arguments: list[ast.expr] = [ast.Name(self.name(each), ast.Load()) for each in ("then", "else")]
        return ast.Call(step("chosen"), [test_of(self.node.test), *arguments, _tuple(names, ast.Load())], [])

    def function_of(self, kind: str, names: Sequence[str], body: Sequence[ast.stmt]) -> ast.FunctionDef:
        return _function(self.name(kind), names, body)

    def name(self, kind: str) -> str:
        return f"_if_{self.number}_{kind}"


class _Repeating:
    """One `while`: its test and its turns as functions of the names that they change."""

    def __init__(self, function: ast.FunctionDef, node: ast.While, number: int) -> None:
        self.function, self.node, self.name = function, node, f"_while_{number}"

    def statements(self) -> list[ast.stmt]:
        node, body = self.node, [each for each in self.node.body if not getattr(each, "plain_only", False)]
        check(body)
        if node.orelse:
            raise NoScanError
        added, holders = added_to(body), attribute_holders(body)
        changed, bound = written(body) | added | (holders & names_of(self.function)), stored(body) - added
        if changed & bound or unseen(self.function, body):
            raise NoScanError
        first = read_first(body) | loaded([node.test])
        carried = sorted((bound & (first | read_after(self.function, node))) | changed)
        test = _function(f"{self.name}_test", carried, [ast.Return(test_of(node.test))])
        turn = _function(f"{self.name}_turn", carried, [*body, ast.Return(_tuple(carried, ast.Load()))])
        turn.unset = set(carried) - arguments_of(self.function)  # type: ignore[attr-defined]  # read by `names_given`
        held = [f"{self.name}_new_{name}" if name in changed else name for name in carried]
        (taken,) = _parsed(f"{_listed(held)} = {MODULE}.repeated({test.name}, {turn.name}, {_listed(carried)})")
        back = [f"{name} = {MODULE}.written({name}, {self.name}_new_{name})" for name in sorted(changed)]
        return [*_parsed(held_by(holders)), test, turn, taken, *_parsed("\n".join(back))]


def _function(name: str, arguments: Sequence[str], body: Sequence[ast.stmt]) -> ast.FunctionDef:
    (made,) = _parsed(f"def {name}({', '.join(arguments)}):\n    pass")
    assert isinstance(made, ast.FunctionDef)
    made.body = list(body)
    return made


def _parsed(text: str) -> list[ast.stmt]:
    return _bare(ast.parse(text).body)


def _listed(names: Sequence[str]) -> str:
    return f"({''.join(f'{name}, ' for name in names)})"


def _bare(nodes: list[ast.stmt]) -> list[ast.stmt]:
    """The statements without the places that they had where they were parsed."""
    for node in (each for top in nodes for each in ast.walk(top)):
        for attribute in node._attributes:
            if hasattr(node, attribute):
                delattr(node, attribute)
    return nodes


def _tuple(names: Sequence[str], ctx: ast.expr_context) -> ast.expr:
    return ast.Tuple([ast.Name(name, type(ctx)()) for name in names], ctx)
