"""The head of a loop, whatever it runs over, in terms of a range."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, replace

STEPS = "_loop_steps"
"""The name of the module `loop_steps` in a rewritten function."""


class NoScanError(Exception):
    """The loop does something that a scan cannot express."""


@dataclass(frozen=True)
class Header:
    """The head of a loop in terms of a range.

    `for x_t in x.unbind(1)` is `for i in range(size(x, 1))` with a body that begins with `x_t = x[:, i]`.
    """

    index: str
    turns: list[ast.expr]
    plain: ast.expr
    """What the loop runs over where its turns are a plain number."""
    before: list[ast.stmt]
    """Values that the head needs more than once."""
    first: list[ast.stmt]
    """What the body begins with."""
    is_backwards: bool = False


def header_of(loop: ast.For, number: int) -> Header:
    called = _called(loop.iter)
    if called == "reversed":
        (source,) = _arguments(loop.iter)
        header = header_of(ast.For(loop.target, source, [], []), number)
        plain = header.plain if _called(source) == "range" else ast.Call(expression("reversed"), [header.plain], [])
        return replace(header, plain=plain, is_backwards=not header.is_backwards)
    if called == "range":
        if not isinstance(loop.target, ast.Name):
            raise NoScanError
        turns = [_without_len(each) for each in _arguments(loop.iter)]
        return Header(loop.target.id, turns, expression(f"_loop_{number}_turns.plain"), [], [])
    index, target, source = f"_loop_{number}_index", loop.target, loop.iter
    if called == "enumerate":
        target, source = _counted(loop)
        index = loop.target.elts[0].id  # type: ignore[attr-defined]  # as found by _counted
    sources = _arguments(source) if _called(source) == "zip" else [source]
    targets = target.elts if _called(source) == "zip" and isinstance(target, ast.Tuple) else [target]
    if len(sources) != len(targets):
        raise NoScanError
    before, first, plain, size = [], [], [], None
    for position, (each, name) in enumerate(zip(sources, targets, strict=True)):
        held = f"_loop_{number}_source_{position}"
        value, axis = _unbound(each)
        before.append(ast.Assign([ast.Name(held, ast.Store())], value))
        first.append(ast.Assign([name], expression(f"{held}[{':, ' * axis}{index}]")))
        plain.append(f"{held}.unbind({axis})" if axis else held)
        size = size or expression(f"{STEPS}.size({held}, {axis})")
    whole = f"zip({', '.join(plain)}, strict={_is_strict(source)})" if _called(source) == "zip" else plain[0]
    whole = f"enumerate({whole})" if called == "enumerate" else whole
    assert size is not None
    return Header(index, [size], expression(whole), before, first)


def _called(node: ast.expr) -> str | None:
    """The name of the function that is called, where it is one."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None


def _arguments(node: ast.expr) -> list[ast.expr]:
    assert isinstance(node, ast.Call)
    if (
        any(each.arg != "strict" for each in node.keywords)
        or not node.args
        or any(isinstance(each, ast.Starred) for each in node.args)
    ):
        raise NoScanError
    return node.args


def _is_strict(node: ast.expr) -> bool:
    assert isinstance(node, ast.Call)
    return any(isinstance(each.value, ast.Constant) and each.value.value is True for each in node.keywords)


def _counted(loop: ast.For) -> tuple[ast.expr, ast.expr]:
    """The target and the source of `for i, x in enumerate(xs)`."""
    sources, target = _arguments(loop.iter), loop.target
    if len(sources) != 1 or not isinstance(target, ast.Tuple) or len(target.elts) != 2:
        raise NoScanError
    if not isinstance(target.elts[0], ast.Name):
        raise NoScanError
    return target.elts[1], sources[0]


def _unbound(node: ast.expr) -> tuple[ast.expr, int]:
    """The tensor that is iterated over, and its axis: that of `x.unbind(1)`, or the first."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "unbind":
        return node, 0
    values = [*node.args, *(each.value for each in node.keywords)]
    owner = node.func.value
    if isinstance(owner, ast.Name) and owner.id == "torch":
        owner, values = values[0], values[1:]
    axis = values[0].value if values and isinstance(values[0], ast.Constant) else 0
    if len(values) > 1 or not isinstance(axis, int) or axis < 0:
        raise NoScanError
    return owner, axis


def _without_len(node: ast.expr) -> ast.expr:
    """The expression with `len(x)` as a size that stays dynamic: Python makes a number of what `len` gives."""
    return _Sizes().visit(copy.deepcopy(node))


class _Sizes(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
            return ast.Call(expression(f"{STEPS}.size"), [node.args[0], ast.Constant(0)], [])
        return node


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
