"""Bodies of an `if` on sizes that change nothing where the test is false: they always run, and no size is asked.

if padding > 0:                        a slice of a whole axis, and a padding of nothing, give their operand:
    x = x[:, :length]                  the line is right at every size, whatever the test says
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import FrameType, ModuleType
from typing import Any, TypeGuard

import sympy
import torch
from torch import SymBool, SymInt, Tensor
from torch.nn import functional

from fxport.diagnostics.source import lines_of
from fxport.exporter.capture.guards.answers import DEFER, Inquiry, Question
from fxport.exporter.capture.guards.askers import frame_that_asks, place_of_asker
from fxport.exporter.capture.sizes.implied import follows
from fxport.fx_passes.sizes import size_of, unfolded

OPERATORS: Mapping[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
"""Operators that ask nothing of a symbolic number."""

NUMBERS = (int, SymInt, SymBool)


class _Unknown(Exception):
    """The expression may do something, or ask for a size."""


@dataclass(frozen=True, slots=True)
class Choice:
    """`if test: target = body`, where `target` is `other` if the test is false."""

    test: ast.expr
    bodies: tuple[tuple[str, ast.expr], ...]
    """For each assignment, the variable that it changes nothing of where the test is false, and what is assigned."""


def always_run(question: Question, inquiry: Inquiry) -> Any:
    """Answer yes where the body of an `if` changes nothing if the answer is no, and rely on nothing."""
    asked, asking = question.asked, frame_that_asks() if isinstance(question.asked, sympy.Rel) else None
    if asking is None or not asked.free_symbols:
        return DEFER
    idle = idle_body(*asking, asked)
    if idle is None or not (idle.is_view or inquiry.may_copy):
        return DEFER
    inquiry.always[place_of_asker()] = not idle.is_view
    return sympy.true


@dataclass(frozen=True, slots=True)
class Idle:
    """A body that always runs."""

    is_view: bool
    """It gives its operand, or a view of it, and never a copy."""


def idle_body(frame: FrameType, line: int, asked: Any) -> Idle | None:
    """Return the body that may run whatever the answer to a question is; None if there is none.

    Args:
        frame: The frame that asks.
        line: Its line.
        asked: The condition.
    """
    choice = _choices(frame.f_code.co_filename).get(line)
    if choice is None:
        return None
    names = {**frame.f_globals, **frame.f_locals}
    try:
        conditions = [_condition(_number(each, names)) for each in _operands(choice.test)]
        if asked not in conditions or True in conditions:
            return None
        otherwise = [unfolded(sympy.Not(each)) for each in conditions if each is not False]
        steps = [step for name, body in choice.bodies for step in _chain(name, body, names)]
    except _Unknown:
        return None
    if not all(follows(bound, otherwise) for step in steps for bound in step.bounds):
        return None
    return Idle(all(step.is_view for step in steps))


# Conditions and values ------------------------------------------------------------------------------------------------


def _operands(test: ast.expr) -> Sequence[ast.expr]:
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]


def _condition(test: Any) -> Any:
    """Return what makes a value true: a condition on sizes, or a truth value."""
    condition = size_of(test if isinstance(test, (bool, SymBool)) else test != 0)
    if isinstance(condition, sympy.Basic) and not all(each.is_nonnegative for each in condition.free_symbols):
        raise _Unknown
    return condition


def _value(node: ast.expr | None, names: Mapping[str, Any]) -> Any:
    """Return the value of an expression of numbers and shapes, which runs nothing of the model's."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Attribute(value=owner, attr=attr):
            return _attribute(_value(owner, names), attr)
        case ast.Call(func=ast.Attribute(value=owner, attr="size"), args=[axis], keywords=[]):
            return _item(_attribute(_value(owner, names), "shape"), _value(axis, names))
        case ast.Subscript(value=owner, slice=index):
            return _item(_value(owner, names), _value(index, names))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_number(operand, names))
        case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]) if (
            type(op) in OPERATORS
        ):
            return OPERATORS[type(op)](_number(left, names), _number(right, names))
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return tuple(_value(each, names) for each in items)
    raise _Unknown


def _number(node: ast.expr, names: Mapping[str, Any]) -> Any:
    value = _value(node, names)
    if not isinstance(value, NUMBERS):
        raise _Unknown
    return value


def _attribute(owner: Any, name: str) -> Any:
    if isinstance(owner, Tensor) and name == "shape":
        return owner.shape
    if isinstance(owner, (torch.nn.Module, ModuleType)) and name in vars(owner):
        return vars(owner)[name]
    raise _Unknown


def _item(owner: Any, index: Any) -> Any:
    if not isinstance(owner, (tuple, list)) or type(index) is not int or not -len(owner) <= index < len(owner):
        raise _Unknown
    return owner[index]


# What leaves a tensor as it is ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """One operation: it gives its operand where these expressions are 0 or less."""

    bounds: tuple[Any, ...]
    is_view: bool


def _chain(name: str, body: ast.expr, names: Mapping[str, Any]) -> Iterator[Step]:
    """Yield the operations of an expression, down to the variable whose value they begin with."""
    tensor = names.get(name)
    while not (isinstance(body, ast.Name) and body.id == name):
        if not isinstance(tensor, Tensor):
            raise _Unknown
        match body:
            case ast.Subscript(value=operand, slice=index):
                yield Step(tuple(_of_slices(tensor, index, names)), is_view=True)
            case ast.Call(func=ast.Attribute(value=operand, attr="contiguous"), args=[], keywords=[]):
                yield Step((), is_view=False)
            case ast.Call(func=function, args=[operand, *_]) if _value(function, names) is functional.pad:
                yield Step(tuple(_of_padding(body, names)), is_view=False)
            case _:
                raise _Unknown
        body = operand


def _of_slices(tensor: Tensor, index: ast.expr, names: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what is 0 or less where slices from the beginning of axes reach their ends."""
    items = index.elts if isinstance(index, ast.Tuple) else [index]
    sizes = [size_of(each) for each in tensor.shape]
    dots = [i for i, each in enumerate(items) if isinstance(each, ast.Constant) and each.value is ...]
    left = items[: dots[0]] if dots else items
    right = items[dots[0] + 1 :] if dots else []
    if len(dots) > 1 or len(left) + len(right) > len(sizes):
        raise _Unknown
    pairs = [*zip(left, sizes, strict=False), *zip(right, sizes[len(sizes) - len(right) :], strict=True)]
    for each, size in pairs:
        if not isinstance(each, ast.Slice) or each.step is not None or (each.lower and _value(each.lower, names) != 0):
            raise _Unknown
        if each.upper is not None:
            stop = unfolded(sympy.sympify(size_of(_number(each.upper, names))))
            size = unfolded(sympy.sympify(size))
            if not follows(stop - size, ()):
                raise _Unknown  # PyTorch would ask which of the two is smaller
            yield size - stop


def _of_padding(call: ast.Call, names: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what is 0 or less where the amounts are 0; what fills the padding does not matter then."""
    given = {each.arg: each.value for each in call.keywords}
    amounts = _value(call.args[1] if len(call.args) > 1 else given.get("pad"), names)
    fill = (part for each in (*call.args[2:], *given.values()) for part in ast.walk(each))
    if any(isinstance(each, ast.Call) and ast.unparse(each.func) != "float" for each in fill):
        raise _Unknown  # which may do something
    if not isinstance(amounts, (tuple, list)) or not {"pad", "mode", "value"}.issuperset(given):
        raise _Unknown
    for each in amounts:
        amount = unfolded(sympy.sympify(size_of(each)))
        yield amount
        yield -amount


# Statements of a file -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _choices(path: str) -> Mapping[int, Choice]:
    """Return the choices of a file by the lines of their tests; of two at a line, none."""
    try:
        tree = ast.parse("".join(lines_of(path)))
    except (SyntaxError, ValueError):
        return {}
    found: dict[int, Choice] = {}
    twice: set[int] = set()
    for node in ast.walk(tree):
        for test, choice in _choices_of(node, tree):
            lines = set(range(test.lineno, (test.end_lineno or test.lineno) + 1))
            twice |= lines & found.keys()
            found.update(dict.fromkeys(lines, choice))
    return {line: choice for line, choice in found.items() if line not in twice}


def _choices_of(node: ast.AST, tree: ast.Module) -> Iterator[tuple[ast.expr, Choice]]:
    """Yield the choices of a node, each with the expression at whose lines it is asked for."""
    if isinstance(node, ast.IfExp) and isinstance(node.orelse, ast.Name):
        yield node.test, Choice(node.test, ((node.orelse.id, node.body),))
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        for before, each in pairwise([None, *block]) if isinstance(block, list) else ():
            if not isinstance(each, ast.If) or not (bodies := _bodies(each)):
                continue
            if _is_test_of(before, each, tree):
                yield before.value, Choice(before.value, bodies)
                yield each.test, Choice(before.value, bodies)
            else:
                yield each.test, Choice(each.test, bodies)


def _is_test_of(before: ast.stmt | None, node: ast.If, tree: ast.Module) -> TypeGuard[ast.Assign]:
    """Return whether a statement makes the test of the next one, `padded = a > 0 or b > 0`, for nothing else."""
    match before, node.test:
        case ast.Assign(targets=[ast.Name(id=target)]), ast.Name(id=name) if name == target:
            function = _innermost(tree, before)
            same = (each for each in ast.walk(function) if isinstance(each, ast.Name) and each.id == name)
            return function is not tree and len(list(same)) == 2
    return False


def _innermost(tree: ast.Module, node: ast.AST) -> ast.AST:
    """Return the innermost function around a node, or the module."""
    around = (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))  # outer ones come first
    return next((each for each in reversed([*around]) if any(part is node for part in ast.walk(each))), tree)


def _bodies(node: ast.If) -> tuple[tuple[str, ast.expr], ...]:
    """Return what the statement assigns if the test is true, by the variables that have the values for false."""
    found: list[tuple[str, ast.expr]] = []
    others = {}
    for each in node.orelse:
        match each:
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Name(id=other)):
                others[target] = other
            case _:
                return ()
    for each in node.body:
        match each:
            case ast.Assign(targets=[ast.Name(id=target)], value=value):
                found.append((others.pop(target, target), value))
            case _:
                return ()
    return () if others or (node.orelse and len(found) > 1) else tuple(found)
