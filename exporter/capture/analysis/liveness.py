"""Control flow and liveness of one function: the names whose values may still be read at a point of it.

A control-flow graph of statements and tests, and the classic backward analysis over it (Aho, Lam, Sethi and Ullman,
"Compilers", 9.2.5): live before = reads | (live after - certain bindings). Where the graph is not sure it has an
edge more, which makes more names live and no fewer.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fxport.exporter.capture.analysis.names import SCOPES, captured, declared, own_bindings, read


@dataclass(eq=False, slots=True)
class Point:
    """A step of a function: what it reads, what it binds if it succeeds, and the points that may follow."""

    reads: set[str] = field(default_factory=set)
    binds: set[str] = field(default_factory=set)
    next: list[Point] = field(default_factory=list)
    raised: tuple[Point, ...] = ()
    """The points that may follow an error, before anything is bound."""
    live: set[str] = field(default_factory=set)
    """The names that are live before the step."""


@dataclass(frozen=True, slots=True)
class Live:
    """The names that are live around one compound statement.

    `inside`: where its body begins; for a loop, where any turn begins, with the test of a `while` and the target of a
    `for`. `after`: behind the statement.
    """

    inside: frozenset[str]
    after: frozenset[str]


def liveness(function: ast.FunctionDef) -> Mapping[ast.stmt, Live]:
    """Return the live names around every `if`, `for` and `while` of the function itself.

    Names that functions inside of it refer to, and names of the functions around it, are live everywhere.
    """
    graph = _Graph()
    graph.block(function.body, _Targets(graph.point()))
    graph.solve()
    always = captured(function) | declared(function, ast.Global) | declared(function, ast.Nonlocal)
    return {
        node: Live(frozenset(inside.live | always), frozenset(always.union(*(each.live for each in after))))
        for node, (inside, after) in graph.around.items()
    }


@dataclass(frozen=True, slots=True)
class _Targets:
    """Successors of a block of statements: the next statement, loop exits, function exits, and handlers of errors."""

    on: Point
    leave: Point | None = None
    again: Point | None = None
    out: tuple[Point, ...] = ()
    """Code that runs before a return leaves the function: clauses of `finally`."""
    raised: tuple[Point, ...] = ()

    def going(self, on: Point) -> _Targets:
        return _Targets(on, self.leave, self.again, self.out, self.raised)


class _Graph:
    def __init__(self) -> None:
        self.points: list[Point] = []
        self.around: dict[ast.stmt, tuple[Point, list[Point]]] = {}

    def point(self, nodes: Sequence[ast.AST] = (), *following: Point, raised: tuple[Point, ...] = ()) -> Point:
        """Add a step that runs these nodes, in their order."""
        reads, binds = uses(nodes)
        made = Point(reads, binds, list(following), raised)
        self.points.append(made)
        return made

    def block(self, body: Sequence[ast.stmt], to: _Targets) -> Point:
        """Add the statements, last one first, and return where they begin."""
        first = to.on
        for node in reversed(body):
            build = _BUILDERS.get(type(node), _Graph.simple)
            first = build(self, node, to.going(first))
        return first

    def simple(self, node: ast.stmt, to: _Targets) -> Point:
        return self.point([node], to.on, raised=to.raised)

    def branch(self, node: ast.If, to: _Targets) -> Point:
        then, other = self.block(node.body, to), self.block(node.orelse, to)
        entry = self.point((), then, other)
        self.around[node] = entry, [to.on]
        return self.point([node.test], entry, raised=to.raised)

    def loop(self, node: ast.For | ast.While, to: _Targets) -> Point:
        head = self.point([node.test] if isinstance(node, ast.While) else (), raised=to.raised)
        end = self.block(node.orelse, to)
        body = self.block(node.body, _Targets(head, to.on, head, to.out, to.raised))
        if isinstance(node, ast.While):
            self.around[node] = head, [end, to.on]
            head.next += [body, end]
            return head
        target = self.point([node.target], body, raised=to.raised)
        self.around[node] = target, [end, to.on]
        head.next += [target, end]
        return self.point([node.iter], head, raised=to.raised)

    def context(self, node: ast.With, to: _Targets) -> Point:
        """Add a `with`: its end may also follow an error, which some contexts suppress."""
        inner = _Targets(to.on, to.leave, to.again, to.out, (*to.raised, to.on))
        body = self.block(node.body, inner)
        return self.point(node.items, body, raised=(*to.raised, to.on))

    def handled(self, node: ast.Try, to: _Targets) -> Point:
        """Add a `try`: every step of its body may be followed by any handler, and by what is last."""
        exits = [each for each in (to.on, to.leave, to.again, *to.out, *to.raised) if each is not None]
        if node.finalbody:
            done = self.point((), *exits)
            last = self.block(node.finalbody, _Targets(done, to.leave, to.again, to.out, to.raised))
            to = _Targets(last, to.leave and last, to.again and last, (last,), (last,))
        handlers = [self.handler(each, to) for each in node.handlers]
        orelse = self.block(node.orelse, to)
        return self.block(node.body, _Targets(orelse, to.leave, to.again, to.out, (*handlers, *to.raised)))

    def handler(self, node: ast.ExceptHandler, to: _Targets) -> Point:
        body = self.block(node.body, to)
        return self.point([node.type] if node.type is not None else (), body, raised=to.raised)

    def match(self, node: ast.Match, to: _Targets) -> Point:
        """Add a `match`: a pattern may bind some of its names and fail, so none is bound for certain."""
        following = to.on
        for case in reversed(node.cases):
            guard = [case.guard] if case.guard is not None else []
            body = self.block(case.body, to)
            following = self.point([case.pattern, *guard], body, following, raised=to.raised)
            following.binds.clear()
        return self.point([node.subject], following, raised=to.raised)

    def leaves(self, node: ast.Break, to: _Targets) -> Point:
        return self.point((), *(each for each in [to.leave] if each is not None))

    def repeats(self, node: ast.Continue, to: _Targets) -> Point:
        return self.point((), *(each for each in [to.again] if each is not None))

    def returns(self, node: ast.Return | ast.Raise, to: _Targets) -> Point:
        return self.point([node], *to.out, raised=to.raised)

    def solve(self) -> None:
        """Run to the fixed point; points were added from the end, so few rounds are needed."""
        changed = True
        while changed:
            changed = False
            for point in self.points:
                after: set[str] = set().union(*(each.live for each in point.next))
                live = (after - point.binds).union(point.reads, *(each.live for each in point.raised))
                if live != point.live:
                    point.live, changed = live, True


_BUILDERS = {
    ast.If: _Graph.branch,
    ast.For: _Graph.loop,
    ast.While: _Graph.loop,
    ast.With: _Graph.context,
    ast.Try: _Graph.handled,
    **({ast.TryStar: _Graph.handled} if hasattr(ast, "TryStar") else {}),
    ast.Match: _Graph.match,
    ast.Break: _Graph.leaves,
    ast.Continue: _Graph.repeats,
    ast.Return: _Graph.returns,
    ast.Raise: _Graph.returns,
}


def uses(nodes: Sequence[ast.AST]) -> tuple[set[str], set[str]]:
    """Return the names that the nodes may read before they bind them, and those that they bind for certain."""
    reads: set[str] = set()
    binds: set[str] = set()
    for node in nodes:
        _use(node, reads, binds, certain=True)
    return reads, binds


def _use(node: ast.AST, reads: set[str], binds: set[str], *, certain: bool) -> None:
    """Go through a node in the order in which Python evaluates it."""
    if isinstance(node, (*SCOPES, ast.ClassDef)):
        reads |= read([node]) - binds  # as if its body ran at once; see `captured` for when it runs later
        binds |= set(own_bindings(node)) if certain else set()
        return
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
        reads |= {node.id} - binds  # what is to be unbound has to be there
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        reads |= {node.target.id} - binds
    parts = _evaluated(node)
    known = CERTAIN.get(type(node), len(parts))
    for position, part in enumerate(parts):
        _use(part, reads, binds, certain=certain and position < known)
    if certain:
        binds |= set(own_bindings(node))


CERTAIN: Mapping[type[ast.AST], int] = {ast.BoolOp: 1, ast.IfExp: 1, ast.Compare: 2}
"""Number of parts of an expression that are evaluated for certain; the others may not be."""


def _evaluated(node: ast.AST) -> list[ast.AST]:
    """Return the parts of a node in the order in which they are evaluated."""
    if isinstance(node, ast.Assign):
        return [node.value, *node.targets]
    if isinstance(node, ast.AnnAssign):
        return [*([node.value] if node.value else []), node.target]
    if isinstance(node, ast.AugAssign):
        return [node.target, node.value]
    if isinstance(node, ast.NamedExpr):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return [node.test, node.body, node.orelse]
    if isinstance(node, ast.BoolOp):
        return [*node.values]
    return [*ast.iter_child_nodes(node)]
