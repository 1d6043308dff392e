"""FXP1002: a choice by Python becomes one inside the graph, by torch.where, torch.cond or torch.while_loop."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fxport.diagnostics.fixes.conditions import as_tensor, reads_a_size
from fxport.diagnostics.fixes.numbers import is_number
from fxport.diagnostics.fixes.site import Function, Site, fix
from fxport.diagnostics.fixes.tensors import are_loop_numbers, is_no_tensor
from fxport.diagnostics.model import Edit, Fix

Branch = Sequence[ast.stmt]
PLAIN = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Pass)
"""Statements that a branch of torch.cond may hold: no effect but on the function's own names."""

VIEWS = frozenset(
    re.findall(
        r"\w+",
        "chunk contiguous detach diagonal expand expand_as flatten float movedim narrow permute reshape select "
        "squeeze swapaxes t to transpose unflatten unfold unsqueeze view view_as ",
    )
)
"""Methods that may return a view of their tensor, or the tensor itself."""


def branches(site: Site) -> Iterator[Fix]:
    """The ways to write the `if`, the conditional expression or the `while` around the marked condition."""
    items = [site.replaced(call, site.code(kept)) for call, kept in _items(site)]
    for each in _ways(site):
        yield replace(each, edits=(*items, *each.edits))


def _ways(site: Site) -> Iterator[Fix]:
    node = site.expression
    if node is None or any(isinstance(each, ast.NamedExpr) for each in ast.walk(node)):
        return  # the branches may read the name that the condition gives
    if any(is_no_tensor(site, each) for each in ast.walk(node) if isinstance(each, ast.Name)):
        return  # what a container holds is no value of a tensor
    if are_loop_numbers(site, node):
        return
    for outer in (node, *site.around(node)):
        if isinstance(outer, ast.IfExp) and _within(outer.test, node):
            yield from _ternary(site, outer)
            return
        if isinstance(outer, ast.If) and _within(outer.test, node):
            yield from _statement(site, outer)
            return
        if isinstance(outer, ast.While) and _within(outer.test, node):
            yield from _loop(site, outer)
            return


def _items(site: Site) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The calls `n = x.item()` in the function, and x, for the names that the condition reads: they stay tensors."""
    if site.expression is None or site.function is None:
        return
    read = {each.id for each in ast.walk(site.expression) if isinstance(each, ast.Name)}
    for node in ast.walk(site.function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and not node.value.args:
            named = {each.id for each in node.targets if isinstance(each, ast.Name)}
            called = node.value.func
            if named & read and isinstance(called, ast.Attribute) and called.attr == "item":
                yield node.value, called.value


def _is_tensor(site: Site, test: str) -> bool:
    """Return whether a rewritten condition is a tensor, as torch.where asks: `len(rows) > 0` stays Python's."""
    names = frozenset(
        each.id
        for call, _ in _items(site)
        for statement in (site.parents[call],)
        if isinstance(statement, ast.Assign)
        for each in statement.targets
        if isinstance(each, ast.Name)
    )
    return not is_number(site, ast.parse(f"({test}\n)", mode="eval").body, names)


def _are_alike(site: Site, one: ast.AST, other: ast.AST | None) -> bool:
    """Return whether one operator may choose between the values of two expressions or statements.

    It may not if they are cut, converted or listed in different ways, or if one is no tensor.
    """
    values = [each if isinstance(each, ast.expr) else getattr(each, "value", None) for each in (one, other)]
    forms = _forms(one)
    return forms == _forms(other) and not forms & OF_DATA and not any(is_no_tensor(site, each) for each in values)


def _forms(value: ast.AST | None) -> set[str]:
    """Return what gives a value another size or dtype than that of the tensors in it."""
    nodes = [*ast.walk(value)] if value is not None else []
    called = (each for each in nodes if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute))
    ways = {_way(each) for each in called if each.func.attr in OTHER_FORMS}  # type: ignore[union-attr]  # chosen above
    listed = (each for each in nodes if isinstance(each, (ast.ListComp, ast.GeneratorExp)))
    return {
        *ways,
        *_cuts(value),
        *(ast.unparse(part.iter) for each in listed for part in each.generators),
    }


def _cuts(value: ast.AST | None) -> set[str]:
    """Return the slices in an expression or statement, as they are written."""
    return {ast.unparse(each) for each in (ast.walk(value) if value else ()) if isinstance(each, ast.Slice)}


def _way(call: ast.Call) -> str:
    """Return a call as far as it tells the size and the dtype of its result: its function and all but its lists."""
    given = [*call.args, *(each.value for each in call.keywords)]
    told = [f"{len(each.elts)} tensors" if isinstance(each, ast.List) else ast.unparse(each) for each in given]
    return f"{ast.unparse(call.func).rpartition('.')[2]}({', '.join(told)})"


OTHER_FORMS = frozenset(
    re.findall(r"\w+", "bool byte cat char double float half int long short stack to type bfloat16 nonzero unique")
)
"""Functions and methods whose result has another size or dtype than their tensors."""

OF_DATA = frozenset(("nonzero()", "unique()"))
"""Calls whose result has a size that the values of their tensor decide."""


def _within(test: ast.expr, node: ast.expr) -> bool:
    return any(each is node for each in ast.walk(test))


def _ternary(site: Site, node: ast.IfExp) -> Iterator[Fix]:
    test, body, other = as_tensor(site, node.test), site.code(node.body), site.code(node.orelse)
    if not _are_alike(site, node.body, node.orelse):
        return
    if _is_tensor(site, test):
        yield fix("Choose by torch.where.", site.replaced(node, f"torch.where({test}, {body}, {other})"))
    ways = f"lambda: {_fresh(site, node.body)}, lambda: {_fresh(site, node.orelse)}"
    yield fix("Choose by torch.cond.", site.replaced(node, f"torch.cond({test}, {ways})"))


def _statement(site: Site, node: ast.If) -> Iterator[Fix]:
    test, (other, last) = as_tensor(site, node.test), _otherwise(site, node)
    pair = _values(site, node.body, other)
    alike = pair is not None and _are_alike(site, node.body[0], other[0] if other else None)
    if pair is not None and alike and _is_tensor(site, test):
        target, body, orelse = pair
        yield fix("Choose by torch.where.", _line(site, node, last, f"{target}torch.where({test}, {body}, {orelse})"))
    if (text := _as_cond(site, node, test, other)) is not None:
        yield fix("Choose by torch.cond.", _line(site, node, last, text))


def _line(site: Site, node: ast.stmt, last: ast.stmt, text: str) -> Edit:
    """`text` in the place of all statements from `node` to `last`, its lines after the first indented as they are.

    A function has a blank line above it, unless it begins its block.
    """
    edit = site.replaced(node, re.sub(r"\n(?=.)", f"\n{site.indent(node)}", text), until=last)
    above = site.lines[node.lineno - 2].split("#")[0].rstrip() if node.lineno > 1 else ""
    if not text.startswith("def ") or not above or above.endswith(":") or site.indent(node).strip():
        return edit
    return replace(edit, column=1, text=f"\n{site.indent(node)}{edit.text}")


def _otherwise(site: Site, node: ast.If) -> tuple[Branch, ast.stmt]:
    """The other branch, which after a `return` is the rest of the block; and the last statement of both."""
    if node.orelse or not isinstance(node.body[-1], ast.Return):
        return node.orelse, node
    block = next(
        (held for _, held in ast.iter_fields(site.parents[node]) if isinstance(held, list) and node in held), [node]
    )
    rest = block[block.index(node) + 1 :]
    return (rest, rest[-1]) if rest else ([], node)


def _values(site: Site, body: Branch, other: Branch) -> tuple[str, str, str] | None:
    """Return (beginning of the line, value of one branch, value of the other) of branches that only return or assign
    one name, else None.
    """
    if len(body) != 1 or len(other) > 1:
        return None
    if any(isinstance(getattr(each, "value", None), ast.Tuple) for each in (*body, *other)):
        return None  # torch.where gives one tensor
    if isinstance(body[0], ast.Return):
        if not other or not isinstance(other[0], ast.Return) or not body[0].value or not other[0].value:
            return None
        return "return ", site.code(body[0].value), site.code(other[0].value)
    one, two = _given(site, body[0]), _given(site, other[0]) if other else None
    if one is None or (other and two is None) or (two is not None and two[0] != one[0]):
        return None
    return f"{one[0]} = ", one[1], two[1] if two else one[0]


def _given(site: Site, statement: ast.stmt) -> tuple[str, str] | None:
    """The name that an assignment changes, and its value."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id, site.code(statement.value)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        name = statement.target.id
        whole = ast.BinOp(ast.Name(name), statement.op, statement.value)
        return name, ast.unparse(whole)
    return None


def _as_cond(site: Site, node: ast.If, test: str, other: Branch) -> str | None:
    """The branches as functions of the names that they change; the others they read from around them."""
    function = site.function
    returns = [isinstance(branch[-1], ast.Return) if branch else False for branch in (node.body, other)]
    statements = [*node.body, *other]
    if function is None or not all(isinstance(each, PLAIN) for each in statements) or len(set(returns)) > 1:
        return None
    if any(isinstance(each, (ast.Nonlocal, ast.Global)) for each in ast.walk(function)):
        return None  # a new function would make the name its own
    if any(is_no_tensor(site, value) for each in statements for value in _parts(getattr(each, "value", None))):
        return None
    if sum(isinstance(each, ast.Return) for each in statements) != sum(returns):
        return None
    changed = [_changed(branch) for branch in (node.body, other)]
    if any(names is None for names in changed):
        return None
    on_true, on_false = (held or set[str]() for held in changed)
    before, last = _bound_before(function, node), statements[-1].end_lineno or 0
    carried = sorted((on_true | on_false) & before)
    names = sorted((on_true | on_false) & _read_after(function, last) | set(carried))
    if any(is_no_tensor(site, ast.Name(name)) for name in names):
        return None
    if not returns[0] and (not names or set(names) - before - (on_true & on_false)):
        return None  # nothing comes of it, or a name that only one branch makes is read later
    parts = [
        _function(site, way, branch, carried, None if returns[0] else names)
        for way, branch in (("on_true", node.body), ("on_false", other))
    ]
    left = "return " if returns[0] else f"{names[0]} = " if len(names) == 1 else f"{', '.join(names)} = "
    operands = f", ({', '.join(carried)},)" if carried else ""
    return "\n\n".join(parts) + f"\n\n{left}torch.cond({test}, on_true, on_false{operands})"


def _parts(value: ast.expr | None) -> Sequence[ast.expr]:
    """Return the values of a tuple, or the one value."""
    return value.elts if isinstance(value, ast.Tuple) else [value] if value is not None else []


def _function(site: Site, name: str, branch: Branch, carried: Sequence[str], results: Sequence[str] | None) -> str:
    lines = [f"def {name}({', '.join(carried)}):"]
    for statement in branch:
        if isinstance(statement, ast.Return) and statement.value is not None:
            lines.append(f"    return {_fresh(site, statement.value)}")
        elif not isinstance(statement, ast.Pass):
            lines.append(_inside(site, statement))
    if results is not None:
        own = {name for statement in branch if not _may_be_view(statement) for name in _changed([statement]) or ()}
        told = [each if each in own else f"{each}.clone()" for each in results]
        lines.append(f"    return {', '.join(told)}")
    return "\n".join(lines)


def _inside(site: Site, statement: ast.stmt) -> str:
    """A statement as a line of a new function, also where it stood on the line of its `if` or `while`."""
    indent = re.sub(r"\S", " ", site.indent(statement))
    return textwrap.indent(textwrap.dedent(f"{indent}{site.code(statement)}"), "    ")


def _fresh(site: Site, value: ast.expr) -> str:
    """A branch must not return its own input nor a view of it: what may be one is copied."""
    if isinstance(value, ast.Tuple):
        return ", ".join(_fresh(site, each) for each in value.elts)
    return f"{site.code(value)}.clone()" if _is_view(value) else site.code(value)


def _may_be_view(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None and _is_view(statement.value)
    )


def _is_view(value: ast.expr) -> bool:
    called = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in VIEWS
    return called or isinstance(value, (ast.Name, ast.Attribute, ast.Subscript, ast.Tuple))


def _changed(branch: Branch) -> set[str] | None:
    """The names that a branch gives values to; None if it changes anything else: an attribute, an element."""
    names: set[str] = set()
    for statement in branch:
        targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target] if target is not None else []
            if not all(isinstance(part, ast.Name) for part in parts):
                return None
            names |= {part.id for part in parts if isinstance(part, ast.Name)}
    return names


def _bound_before(function: Function, node: ast.stmt) -> set[str]:
    """The arguments of a function and the names that it binds above a statement."""
    arguments = function.args
    names = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    for each in ast.walk(function):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and each.lineno < node.lineno:
            names.add(each.id)
    return names


def _read_after(function: Function, line: int) -> set[str]:
    """The names that a function reads below a line."""
    return {each.id for each in ast.walk(function) if isinstance(each, ast.Name) and each.lineno > line}


def _loop(site: Site, node: ast.While) -> Iterator[Fix]:
    """A `while` whose body only changes names that it had before becomes torch.while_loop over those."""
    names = _changed(node.body)
    held = all(isinstance(each, (ast.Assign, ast.AugAssign)) for each in node.body)
    if "reason" in site.facts or reads_a_size(node.test):  # it was tried as a while_loop in vain, or changes sizes
        return
    if site.function is None or not names or not held or node.orelse or names - _bound_before(site.function, node):
        return
    if any(is_no_tensor(site, ast.Name(name)) for name in names):
        return
    carried = sorted(names)
    listed = ", ".join(carried)
    body = "\n".join(_inside(site, each) for each in node.body)
    text = (
        f"def go_on({listed}):\n    return {as_tensor(site, node.test)}\n\n"
        f"def turn({listed}):\n{body}\n    return ({listed},)\n\n"
        f"({listed},) = torch.while_loop(go_on, turn, ({listed},))"
    )
    yield fix("Loop by torch.while_loop.", _line(site, node, node, text))
