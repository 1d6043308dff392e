"""`for i in range(n)` with a body that a scan can run, rewritten so that it is a scan where `n` is a dynamic size.

for t in range(x.shape[1]):              turns = Turns.of(x.shape[1])
    h = cell(x[:, t], h)                 if turns.symbolic:
    ys.append(h)                             def step(t, carried, rows):
                                                 (h,) = carried
                                                 (row,) = rows
                                                 h = cell(row, h)
                                                 out = h
                                                 return (h,), (out,)
                                             (h,), (out,) = scanned(step, turns, (h,), (rows(x, (:, INDEX), turns),))
                                             ys.append(Many(out))
                                         else:
                                             the loop as it was
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from exporter.capture.control_flow import effects
from exporter.capture.control_flow.appending import appended_by
from exporter.capture.control_flow.call_rewriting import lists_known
from exporter.capture.control_flow.effects import MODULE
from exporter.capture.control_flow.jumps import jumps_of
from exporter.capture.control_flow.loop_heads import STEPS, NoScanError, expression, header_of
from exporter.capture.control_flow.loop_indices import as_value, elements_of, is_plain, uncut
from exporter.capture.control_flow.loop_names import (
    OURS,
    loaded,
    own_nodes,
    read_after,
    read_first,
    stored,
    unseen,
)

FORBIDDEN = (*effects.FORBIDDEN, ast.Return, ast.Raise)


CHECKS = ("holds", "_check", "_check_is_size", "_check_value", "torch_compilable_check")
"""Functions that do nothing but raise errors."""


def loops_kept(function: ast.FunctionDef, lines: set[int]) -> bool:
    """Rewrites the loops at these lines, those in branches before those around them. Whether there was one."""
    ways = [node for node in own_nodes(function) if isinstance(node, ast.FunctionDef) and node.name.startswith(OURS)]
    inner = [loops_kept(way, lines) for way in ways if way is not function]
    loops = [node for node in own_nodes(function) if isinstance(node, ast.For) and _is_at(node, lines)]
    replaced: dict[ast.For, list[ast.stmt]] = {}
    filled: set[str] = set()
    for number, loop in enumerate(loops):
        try:
            rewriting = _rewriting(function, loop, number)
            replaced[loop] = rewriting.statements()
        except NoScanError:
            continue
        filled |= rewriting.filled
    _Replace(replaced).visit(function)
    if replaced:
        lists_known(function, filled)
    return bool(replaced) or any(inner)


def _rewriting(function: ast.FunctionDef, loop: ast.For, number: int) -> _Rewriting:
    """With what a turn changes, other than a row of it that is its own, carried whole from turn to turn."""
    whole: set[str] = set()
    while True:
        try:
            return _Rewriting(function, loop, number, whole)
        except _WholeError as error:
            whole |= error.names


class _WholeError(Exception):
    """Each turn changes what these names stand for."""

    def __init__(self, *names: str) -> None:
        self.names = {*names}


def _is_at(loop: ast.For, lines: set[int]) -> bool:
    return any(loop.lineno <= line <= (loop.iter.end_lineno or loop.lineno) for line in lines)


class _Replace(ast.NodeTransformer):
    def __init__(self, replaced: dict[ast.For, list[ast.stmt]]) -> None:
        self.replaced = replaced

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        found = self.replaced.get(node)
        return found if found is not None else self.generic_visit(node)


class _Rewriting:
    """One loop: what its body does with names, and the statements that stand in its place."""

    def __init__(self, function: ast.FunctionDef, loop: ast.For, number: int, whole: set[str]) -> None:
        self.function, self.loop, self.number = function, loop, number
        self.header = header_of(loop, number)
        self.index = self.header.index
        self.source = [*self.header.first, *(node for node in loop.body if not getattr(node, "plain_only", False))]
        self.after = read_after(function, loop)
        self.holders = effects.attribute_holders(self.source)
        self.whole = whole | effects.added_to(self.source)
        self.whole |= self.holders & effects.names_of(function) - stored(self.source)
        self.bound = stored(self.source) - self.whole
        self.check()
        self.rows: list[tuple[ast.expr, ast.expr]] = []
        self.given: list[tuple[str, ast.stmt]] = []  # name of what a turn gives, what is done with it afterwards
        self.filled: set[str] = set()  # names of lists that it appends to
        self.changed: dict[str, str] = {}  # tensors that each turn changes one row of, and what the row is called
        body = [self.turned(copy.deepcopy(node)) for node in self.source]
        copies = [ast.parse(f"{row} = {row}.clone()").body[0] for row in self.changed.values()]
        self.body = [*copies, *(_Rows(self).visit(node) for node in body)]
        first = read_first(self.source) & self.bound
        self.last = sorted((self.after & self.bound) - first)
        self.carried = sorted(first | self.whole)

    def check(self) -> None:
        if any(jumps_of(self.source)) or unseen(self.function, self.source):
            raise NoScanError
        for node in (each for top in self.source for each in effects.unrefused(top)):
            if isinstance(node, FORBIDDEN):
                raise NoScanError
        for node in (each for top in self.source for each in ast.walk(top)):
            if isinstance(node, (ast.Nonlocal, ast.Global)):
                raise NoScanError
        if self.loop.orelse or self.index in self.bound | self.whole or self.index in self.after:
            raise NoScanError

    def turned(self, node: ast.stmt) -> ast.stmt:
        """A statement of the body with appends and writes as something that the turn gives."""
        if isinstance(node, ast.If):
            node.body = [self.turned(each) for each in node.body]
            node.orelse = [self.turned(each) for each in node.orelse]
            return node
        if isinstance(node, ast.FunctionDef) and node.name.startswith(OURS):
            return node
        if isinstance(node, ast.Expr):
            return self.appended(node)
        if isinstance(node, ast.Assign) and any(isinstance(each, ast.Subscript) for each in node.targets):
            return self.written(node)
        self.left(node)
        return node

    def left(self, node: ast.stmt) -> None:
        """A statement that stays as it is: what it writes to is the turn's own, or carried whole."""
        changed = effects.written([node]) - self.bound - self.whole
        if changed:
            raise _WholeError(*changed)

    def appended(self, node: ast.Expr) -> ast.stmt:
        """`ys.append(y)`, as often as the loop turns: the only call whose effect on a name is understood."""
        call = node.value
        if isinstance(call, ast.Constant) or (isinstance(call, ast.Call) and _name_of(call.func) in CHECKS):
            return node
        found = appended_by(node)
        if found is None or found[0] in self.bound:
            self.left(node)
            return node
        if self.uses(found[0]) != 1:
            raise NoScanError
        held, on, value = found
        name = self.name("out", len(self.given))
        self.filled.add(held)
        if isinstance(on, ast.Constant):
            self.given.append((name, _statement(f"{STEPS}.append({held}, {name})")))
            return self.assigned(node, name, value)
        whether = self.name("on", len(self.given))
        self.given += [(whether, ast.Pass()), (name, _statement(f"{STEPS}.append({held}, {name}, {whether})"))]
        target = ast.Tuple([ast.Name(name, ast.Store()), ast.Name(whether, ast.Store())], ast.Store())
        truth = ast.Call(expression(f"{STEPS}.truth"), [on], [])
        return ast.fix_missing_locations(
            ast.copy_location(ast.Assign([target], ast.Tuple([value, truth], ast.Load())), node)
        )

    def written(self, node: ast.Assign) -> ast.stmt:
        """`ys[:, t] = y`, one row a turn, to a tensor that the body does nothing else with."""
        target = node.targets[0]
        path = isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name)
        held = target.value.id if path else ""  # type: ignore[attr-defined]  # as just seen
        if len(node.targets) != 1 or not path or held in self.bound | self.whole:
            self.left(node)
            return node
        assert isinstance(target, ast.Subscript)
        index = self.marked(elements_of(target.slice))
        if index is None or self.uses(held) != 1:
            return self.changing(node, target, held)
        name = self.name("out", len(self.given))
        self.given.append((name, self.write(held, index, name)))
        return self.assigned(node, name, node.value)

    def write(self, held: str, index: ast.expr, name: str) -> ast.stmt:
        after = _statement(f"{STEPS}.write({held}, 0, {self.name('turns')}, {name})")
        after.value.args[1] = index  # type: ignore[attr-defined]  # a call was parsed
        return after

    def changing(self, node: ast.Assign, target: ast.Subscript, held: str) -> ast.stmt:
        """`ys[t, :n] = y`: the turn changes a copy of the row, of which alone the body speaks, and gives that."""
        if held not in self.changed:
            nodes = [each for top in self.source for each in ast.walk(top)]
            parts = [each for each in nodes if isinstance(each, ast.Subscript) and ast.unparse(each.value) == held]
            places = [self.read(each) for each in parts]
            if len(parts) != self.uses(held) or None in places or len({ast.dump(each) for each in places if each}) != 1:
                raise _WholeError(held)
            row = self.changed[held] = self.name("row", len(self.rows))
            self.rows.append((ast.Name(held, ast.Load()), places[0]))  # type: ignore[arg-type]  # none is None
            self.given.append((row, self.write(held, places[0], row)))  # type: ignore[arg-type]  # as above
        return ast.copy_location(ast.Assign([self.of_row(self.changed[held], target)], node.value), node)

    def read(self, node: ast.Subscript) -> ast.expr | None:
        """The index of the row that is read in `x[t, ...]`; what is done to the row is left: `x[t, :n]` is `x[t][:n]`.

        After an ellipsis the axis of the loop's variable is counted from the end, and all of the index is needed.
        """
        elements = elements_of(node.slice)
        turn = next((i for i, each in enumerate(elements) if self.is_turn(each)), len(elements))
        counted = any(isinstance(each, ast.Constant) and each.value is ... for each in elements[:turn])
        return self.marked(elements if counted else [*map(uncut, elements[:turn]), *elements[turn : turn + 1]])

    def of_row(self, name: str, node: ast.Subscript) -> ast.expr:
        """What of the row `name` an index of the whole tensor means."""
        kept = [each for each in elements_of(node.slice) if not self.is_turn(each) or self.is_window(each)]
        rest: list[ast.expr] = [ast.Constant(None) if self.is_window(each) else each for each in kept]
        stored = isinstance(node.ctx, ast.Store)
        row = ast.copy_location(ast.Name(name, ast.Load()), node)
        if not rest and not stored:
            return row
        index = ast.Tuple(rest or [ast.Constant(...)], ast.Load())
        return ast.copy_location(ast.Subscript(row, index, node.ctx), node)

    def uses(self, name: str) -> int:
        """How often the body speaks of a name, other than of what stays: its dtype, its device."""
        nodes = [node for top in self.source for node in ast.walk(top)]
        kept = {
            id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr in ("dtype", "device")
        }
        return sum(isinstance(node, ast.Name) and node.id == name and id(node) not in kept for node in nodes)

    def assigned(self, node: ast.stmt, name: str, value: ast.expr) -> ast.stmt:
        return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), node)

    def name(self, kind: str, number: int | None = None) -> str:
        return f"_loop_{self.number}_{kind}" + ("" if number is None else f"_{number}")

    def marked(self, elements: Sequence[ast.expr]) -> ast.expr | None:
        """The index as a tuple with INDEX in the place of the loop's variable; None where that is not all it is."""
        places = [i for i, each in enumerate(elements) if self.is_turn(each)]
        others = [each for i, each in enumerate(elements) if i not in places]
        if len(places) != 1 or not all(is_plain(each) for each in others):
            return None
        marker = ast.Attribute(ast.Name(STEPS, ast.Load()), "INDEX", ast.Load())
        slots = [marker if i in places else as_value(each) for i, each in enumerate(elements)]
        return ast.Tuple(slots, ast.Load())

    def is_turn(self, node: ast.expr) -> bool:
        """`t`, or `t : t + 1`."""
        return (isinstance(node, ast.Name) and node.id == self.index) or self.is_window(node)

    def is_window(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Slice) or node.step is not None:
            return False
        lower, upper = node.lower, node.upper
        return ast.unparse(node) == f"{self.index}:{self.index} + 1" and lower is not None and upper is not None

    def statements(self) -> list[ast.stmt]:
        turns, step = self.name("turns"), self.name("step")
        given = [name for name, _ in self.given]
        carried, last = _tuple(self.carried), [(self.name("last", i), name) for i, name in enumerate(self.last)]
        back = sorted(self.whole)
        ends = _tuple(f"{self.name('new')}_{name}" if name in self.whole else name for name in self.carried)
        scaffold = ast.parse(
            f"{effects.held_by(self.holders)}\n"
            f"{turns} = {STEPS}.Turns.of()\n"
            f"if {turns}.symbolic:\n"
            f"    def {step}({self.index}, _carried, _rows):\n"
            f"        {carried} = _carried\n"
            f"        {_tuple(self.name('row', i) for i in range(len(self.rows)))} = _rows\n"
            f"        return {carried}, {_tuple([*given, *(name for _, name in last)])}\n"
            f"    {ends}, {_tuple([*given, *(held for held, _ in last)])} = "
            f"{STEPS}.scanned({step}, {turns}, {carried}, ())\n"
            + "".join(f"    {name} = {MODULE}.written({name}, {self.name('new')}_{name})\n" for name in back)
            + "".join(f"    {name} = {held}[-1]\n" for held, name in last)
            + "else:\n    pass\n"
        ).body
        scaffold[:0] = self.header.before
        head, branch = scaffold[-2], scaffold[-1]
        assert isinstance(head, ast.Assign)
        assert isinstance(head.value, ast.Call)  # of Turns.of
        assert isinstance(branch, ast.If)
        head.value.args = [copy.deepcopy(each) for each in self.header.turns]
        if self.header.is_backwards:
            head.value = ast.Attribute(head.value, "backwards", ast.Load())
        inner, run = branch.body[0], branch.body[1]
        assert isinstance(inner, ast.FunctionDef)
        assert isinstance(run, ast.Assign)
        assert isinstance(run.value, ast.Call)
        inner.body[-1:-1] = self.body
        inner.unset = {*self.carried} - effects.arguments_of(self.function)  # type: ignore[attr-defined]  # as above
        run.value.args[3] = ast.Tuple([self.row(value, index) for value, index in self.rows], ast.Load())
        branch.body += [after for _, after in self.given]
        plain = ast.copy_location(ast.For(self.loop.target, self.header.plain, self.loop.body, []), self.loop)
        for each in ast.walk(self.header.plain):
            ast.copy_location(each, self.loop.iter)
        branch.orelse = [plain]
        for node in scaffold:
            for each in ast.walk(node):
                if "lineno" in each._attributes and each not in _of(self.body) and each not in _of([plain]):
                    ast.copy_location(each, self.loop)
        return scaffold

    def row(self, value: ast.expr, index: ast.expr) -> ast.expr:
        return ast.Call(expression(f"{STEPS}.rows"), [value, index, expression(self.name("turns"))], [])


def _of(nodes: Sequence[ast.AST]) -> set[ast.AST]:
    return {each for node in nodes for each in ast.walk(node)}


class _Rows(ast.NodeTransformer):
    """What the body reads at the loop's variable from tensors of outside: one row of each a turn."""

    def __init__(self, rewriting: _Rewriting) -> None:
        self.rewriting = rewriting

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        of = self.rewriting
        if isinstance(node.value, ast.Name) and node.value.id in of.changed:
            return self.generic_visit(of.of_row(of.changed[node.value.id], node))
        index = of.read(node) if isinstance(node.ctx, ast.Load) and _is_path(node.value) else None
        if index is None or loaded([node.value]) & (of.bound | of.whole | {of.index}):
            return self.generic_visit(node)
        name = of.name("row", len(of.rows))
        of.rows.append((copy.deepcopy(node.value), index))
        return self.generic_visit(of.of_row(name, node))


def _name_of(function: ast.expr) -> str | None:
    return getattr(function, "attr", None) or getattr(function, "id", None)


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.AugAssign) or isinstance(getattr(node, "ctx", None), ast.Store)


def _is_path(node: ast.expr) -> bool:
    """A name, or an attribute of one."""
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_path(node.value))


def _tuple(names: object) -> str:
    return "(" + "".join(f"{name}, " for name in names) + ")"  # type: ignore[attr-defined]  # any iterable of names


def _statement(text: str) -> ast.Expr:
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.Expr)
    return node
