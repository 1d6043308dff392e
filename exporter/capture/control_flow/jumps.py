"""`continue`, `break` and `return` in a loop, where a tensor decides on them, as branches and names.

for layer in self.layers:                stop = False
    x = layer(x)                         for layer in self.layers:
    if sure(x):                              if stop is True:
        break                                    break
    x = x * 2                                if not stop:
                                                 x = layer(x)
                                                 if sure(x):
                                                     stop = True
                                                 else:
                                                     x = x * 2
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence

from fxport.exporter.capture.analysis.names import own_nodes
from fxport.exporter.capture.control_flow.syntax import STEPS, is_at, left_early, placed, statements

JUMPS = (ast.Continue, ast.Break, ast.Return)
LOOPS = (ast.For, ast.While)
AROUND = (ast.With, ast.Try)
"""Statements that do something behind their bodies, also where a jump leaves those."""

MOST = 4000
"""Nodes of a body: what follows a jump is written once for each way to it."""


def jumps_removed(function: ast.FunctionDef, lines: set[int]) -> None:
    """Write jumps as conditions in each loop that has one behind a branch at these lines, and in loops within it.

    Branches and loops that are to be kept are marked as `wanted`. A loop's target is bound by the first statement of a
    turn, which a turn behind a `break` leaves out; `stop` of the loop is the name that says whether there was one.
    """
    asked = {
        node
        for top in own_nodes(function)
        if isinstance(top, (*LOOPS, *AROUND, ast.If)) and _is_asked_for(top, lines)
        for node in own_nodes(top)
    }
    for block in _blocks(function):
        ends = [node for node in block if node in asked and isinstance(node, ast.If) and any(jumps_of([node]))]
        if ends:  # what follows a branch that returns becomes a part of the other one
            asked |= {each for node in block[block.index(ends[0]) :] for each in _own([node])}
    for block in reversed([*_blocks(function)]):
        block[:] = [new for node in block for new in (_without(node) if node in asked else [node])]


def _blocks(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    for parent in own_nodes(function):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(parent, field, None)
            if isinstance(block, list):
                yield block


def _without(node: ast.stmt) -> list[ast.stmt]:
    if isinstance(node, AROUND):
        return _jumping_behind(node)
    if not isinstance(node, LOOPS):
        return [node]
    jumps = {type(jump) for jump in jumps_of(node.body)}
    if not jumps:
        return [node]
    names = _Names(f"{node.lineno}_{node.col_offset}")
    try:
        body = _lowered(node.body, names)
    except _NotAConditionError:
        return [node]
    ends, returns = jumps & {ast.Break, ast.Return}, ast.Return in jumps
    before = [f"{names.stop} = False"] if ends else []
    before += [f"{names.returned} = False", f"{names.value} = {STEPS}.UNSET"] if returns else []
    leaves = f"return {names.value}"
    if not _is_endless(node) or ast.Break in jumps:
        leaves = f"if {names.returned}:\n    {leaves}"
    after = [leaves] if returns else []
    rest = _parsed(f"if not {names.stop}:\n    pass" if node.orelse else "", node)
    for each in rest:
        each.body, node.orelse = node.orelse, []  # type: ignore[attr-defined]  # an if was parsed
    if isinstance(node, ast.While):
        if ends:
            goes_on = ast.UnaryOp(ast.Not(), ast.Name(names.stop, ast.Load()))
            node.test = placed(ast.BoolOp(ast.And(), [placed(goes_on, node.test), node.test]), node.test)
        node.body = body
        _wanted(node)
    elif ends:
        (leave,) = _parsed(f"if {names.stop} is True:\n    break", node)
        leave.plain_only = True  # type: ignore[attr-defined]  # which no scan has a use for
        known = [names.stop] + [names.returned] * (returns and ast.Break not in jumps)
        (guarded,) = _parsed(f"if not {names.stop}:\n    pass\nelse:\n    {' = '.join(known)} = True", node)
        (taken,) = _parsed(f"_ = {names.item}", node)
        taken.targets = [node.target]  # type: ignore[attr-defined]  # an assignment was parsed
        guarded.body = [taken, *body]  # type: ignore[attr-defined]  # an if was parsed
        many, node.iter = _may_be_many(node.iter), left_early(node.iter)
        node.target = placed(ast.Name(names.item, ast.Store()), node.target)
        node.body = [leave, _wanted(guarded)]
        node.stop = names.stop  # type: ignore[attr-defined]  # read by the template
        node.wanted = many  # type: ignore[attr-defined]  # the same
    else:
        node.body = body
    return [*_parsed("\n".join(before), node), node, *map(_wanted, [*rest, *_parsed("\n".join(after), node)])]


def _is_endless(node: ast.stmt) -> bool:
    """Return whether a loop ends by a jump alone, as `while True` does."""
    return isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)


def _may_be_many(source: ast.expr) -> bool:
    """Return whether the source of a loop may be a range of many turns, which is seen where it runs."""
    called = source.func if isinstance(source, ast.Call) else None
    return "range" in (getattr(called, "id", None), getattr(called, "attr", None))


def _jumping_behind(node: ast.With | ast.Try) -> list[ast.stmt]:
    """Let what jumps out of a `with` or a `try … finally` do so behind it."""
    jumps = {type(jump) for jump in jumps_of(node.body)}
    if not jumps or (isinstance(node, ast.Try) and (node.handlers or node.orelse or any(jumps_of(node.finalbody)))):
        return [node]
    names = _Names(f"{node.lineno}_{node.col_offset}")
    try:
        node.body = _lowered(node.body, names, keeps_continue=True) or [ast.copy_location(ast.Pass(), node)]
    except _NotAConditionError:
        return [node]
    flags = {ast.Return: names.returned, ast.Continue: names.skipped, ast.Break: names.stop}
    before = [f"{name} = False" for name in flags.values()] + [f"{names.value} = {STEPS}.UNSET"]
    ends = {ast.Return: f"return {names.value}", ast.Continue: "continue", ast.Break: "break"}
    after = [f"if {flags[kind]}:\n    {ends[kind]}" for kind in flags if kind in jumps]
    return [*_parsed("\n".join(before), node), node, *map(_wanted, _parsed("\n".join(after), node))]


def split_at(body: list[ast.stmt], lines: set[int], splits: set[int]) -> list[ast.stmt]:
    """Return the body of a function with `returns_last` done to it; where one of `splits` is in it, it returns None."""
    if not _is_over(body) and (splits or any(isinstance(jump, ast.Return) for jump in jumps_of(body))):
        body = [*body, *_parsed("return None", body[-1])]
    return returns_last(body, lines, splits)


def returns_last(block: Sequence[ast.stmt], lines: set[int], splits: set[int], inside: bool = False) -> list[ast.stmt]:
    """Move what follows an `if` at these lines that may return into both of its branches.

    Then either both of its branches end in a return, or what they do is no cond. What is `inside` of such a branch is
    treated alike, whatever its lines; and so is an `if` at one of the lines of `splits`, though it does not return:
    what its branches leave is then never one value.
    """
    for position, node in enumerate(block):
        if not isinstance(node, ast.If):
            continue
        splits_here = any(is_at(each.test, splits) for each in _branches_of(node))
        if not splits_here and not any(isinstance(jump, ast.Return) for jump in jumps_of([node])):
            continue
        asked = any(isinstance(each, ast.If) and is_at(each.test, lines) for each in _own([node]))
        if not (inside or asked or splits_here or getattr(node, "wanted", False)):
            continue
        rest = block[position + 1 :]
        arms = [node.body, node.orelse]
        longer = [arm if arm and isinstance(arm[-1], ast.Return) else [*arm, *copy.deepcopy(rest)] for arm in arms]
        ends = [returns_last(arm, lines, splits, inside=True) for arm in longer]
        if sum(1 for arm in ends for each in arm for _ in ast.walk(each)) > MOST or not all(map(_is_over, ends)):
            continue
        new = ast.copy_location(ast.If(node.test, *ends), node)
        new.wanted = getattr(node, "wanted", False)  # type: ignore[attr-defined]  # as set by _wanted
        return [*block[:position], new]
    return list(block)


def _branches_of(node: ast.If) -> Iterator[ast.If]:
    """Yield an `if` and those in it that stand in no loop and in nothing else."""
    yield node
    for each in (*node.body, *node.orelse):
        if isinstance(each, ast.If):
            yield from _branches_of(each)


def _is_over(block: Sequence[ast.stmt]) -> bool:
    """Return whether all paths through the statements end in a return, or in an error."""
    last = block[-1] if block else None
    if isinstance(last, ast.If):
        return _is_over(last.body) and _is_over(last.orelse)
    return isinstance(last, (ast.Return, ast.Raise))


def _is_asked_for(node: ast.stmt, lines: set[int]) -> bool:
    """Return whether a jump of a loop, or the test of a loop or an `if`, stands at one of these lines."""
    if isinstance(node, ast.For) and any(node.lineno <= line <= (node.iter.end_lineno or 0) for line in lines):
        return True
    tests = [node.test] if isinstance(node, (ast.While, ast.If)) else []
    if isinstance(node, (*LOOPS, *AROUND)):
        tests += [each.test for each in _own(node.body) if isinstance(each, ast.If) and any(jumps_of([each]))]
    return any(is_at(test, lines) for test in tests)


class _NotAConditionError(Exception):
    """A jump stands where no condition can take its place."""


class _Names:
    def __init__(self, place: str) -> None:
        kinds = ("stop", "returned", "value", "item", "skipped")
        named = (f"_{kind}_{place}" for kind in kinds)
        self.stop, self.returned, self.value, self.item, self.skipped = named


def _lowered(block: Sequence[ast.stmt], names: _Names, keeps_continue: bool = False) -> list[ast.stmt]:
    """Write a turn without jumps: what comes after one moves into the branch that does not jump."""
    out: list[ast.stmt] = []
    for position, node in enumerate(block):
        if isinstance(node, ast.Continue):
            return [*out, *_parsed(f"{names.skipped} = True", node)] if keeps_continue else out
        if isinstance(node, ast.Break):
            return [*out, *_parsed(f"{names.stop} = True", node)]
        if isinstance(node, ast.Return):
            given, *flags = _parsed(f"{names.value} = None\n{names.returned} = True\n{names.stop} = True", node)
            if node.value is None:
                raise _NotAConditionError
            given.value = node.value  # type: ignore[attr-defined]  # an assignment was parsed
            return [*out, given, *flags]
        if not any(jumps_of([node])):
            out.append(node)
            continue
        if not isinstance(node, ast.If):
            raise _NotAConditionError
        rest = list(block[position + 1 :])
        arms = ([*arm, *copy.deepcopy(rest)] for arm in (node.body, node.orelse))
        then, other = (_lowered(arm, names, keeps_continue) for arm in arms)
        if sum(1 for each in (*then, *other) for _ in ast.walk(each)) > MOST:
            raise _NotAConditionError
        if not then and not other:  # the test may do something
            idle = ast.If(node.test, [ast.copy_location(ast.Pass(), node)], [])
            return [*out, _wanted(ast.copy_location(idle, node))]
        test = node.test if then else placed(ast.UnaryOp(ast.Not(), node.test), node.test)
        new = ast.copy_location(ast.If(test, then or other, other if then else []), node)
        new.wanted = getattr(node, "wanted", False)  # type: ignore[attr-defined]  # as set by _wanted
        return [*out, new]
    return out


def jumps_of(block: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the jumps that leave these statements: of loops among them, only what returns."""
    for node in block:
        if isinstance(node, JUMPS):
            yield node
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) or getattr(node, "plain_only", False):
            continue
        for field in ("body", "orelse", "finalbody"):
            inner = jumps_of([each for each in getattr(node, field, []) if isinstance(each, ast.stmt)])
            yield from (jump for jump in inner if not isinstance(node, LOOPS) or isinstance(jump, ast.Return))
        for handler in getattr(node, "handlers", []):
            yield from jumps_of(handler.body)


def _own(block: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the statements and those in them, without those of functions."""
    for node in block:
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield from _own([each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)])


def _wanted(node: ast.stmt) -> ast.stmt:
    node.wanted = True  # type: ignore[attr-defined]  # a note for `branches_at`
    return node


def _parsed(text: str, like: ast.stmt) -> list[ast.stmt]:
    return [placed(each, like) for each in statements(text)]
