"""Questions that Python answers by the object itself, which in a capture stands for another one.

k is True                                _steps.is_truth(k, True)
n is 4                                   _steps.is_number(n, 4)
layer is self.last                       _steps.is_same(layer, self.last)
x.__class__                              _steps.class_of(x)
case int(): …                            case _steps.Int(): …
case True: …                             case _steps.IsTrue(): …

No operator of Python's is called there that a symbolic number could answer: these are rewritten before they are asked.
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Iterator, Mapping
from itertools import pairwise
from types import CodeType
from typing import Any

import torch
from torch import SymBool, SymInt, Tensor

from fxport.exporter.capture.analysis.names import arguments
from fxport.exporter.capture.control_flow.merging import merged_truth
from fxport.exporter.capture.control_flow.syntax import call, placed, step
from fxport.exporter.capture.control_flow.truth import depends_on_data
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.patches.kinds import is_kind, type_of
from fxport.exporter.capture.patches.mixed_kinds import MERGED_TRUTH
from fxport.exporter.capture.rewritten import note_rewritten

IS_OP, MATCH_CLASS, LOAD_CONST = (dis.opmap[name] for name in ("IS_OP", "MATCH_CLASS", "LOAD_CONST"))
LOAD_SMALL_INT = dis.opmap.get("LOAD_SMALL_INT")  # Python 3.14 has it

WITHIN = "a pattern asks for a truth value, which only data tells, within another value"
BY_IF = "Ask for it by `if`, or match it alone: `match flag: case True: ...`."

CHOOSING = frozenset({"max", "min"})
"""Functions of Python's that give back one of the tensors that they are given."""

SIZES = frozenset({"shape", "size", "len", "numel", "nelement", "dim", "ndim"})
"""Names of what gives a number that is symbolic in a capture."""

CLASSES: Mapping[str, str] = {"int": "Int", "float": "Float", "bool": "Bool"}
"""Classes of patterns that symbolic numbers are not of, and what stands for them."""


def may_ask_identity(code: CodeType) -> bool:
    """Return True if code, or that of a function in it, may ask what an object is, as far as its instructions tell."""
    operations = code.co_code[::2]
    if "__class__" in code.co_names or MATCH_CLASS in operations:
        return True
    if not CHOOSING.isdisjoint(code.co_names) and may_compare_identity(code):
        return True
    names_truth = any(each is True or each is False for each in code.co_consts)
    names_size = not SIZES.isdisjoint(code.co_names) and may_compare_identity(code)
    asks = IS_OP in operations and (names_truth or names_size or _asks_for_a_number(code))
    return asks or any(map(may_ask_identity, _inner(code)))


def _asks_for_a_number(code: CodeType) -> bool:
    """Return whether code asks if a value is a whole number that stands there."""
    pairs = [*zip(code.co_code[::2], code.co_code[1::2], strict=True)]
    return any(
        operation == IS_OP and (loads == LOAD_SMALL_INT or (loads == LOAD_CONST and type(code.co_consts[which]) is int))
        for (loads, which), (operation, _) in pairwise(pairs)
    )


def may_compare_identity(code: CodeType) -> bool:
    """Return True if code, or that of a function in it, may ask whether a value is another one that is no constant."""
    if IS_OP in code.co_code[::2]:
        found = list(dis.get_instructions(code))
        if any(each.opcode == IS_OP and before.opname != "LOAD_CONST" for before, each in pairwise(found)):
            return True
    return any(map(may_compare_identity, _inner(code)))


def _inner(code: CodeType) -> Iterator[CodeType]:
    return (each for each in code.co_consts if isinstance(each, CodeType))


def identities_told(function: ast.FunctionDef) -> bool:
    """Rewrite the questions of the function itself, not of functions in it; return whether there was one."""
    visitor = _Identities(next(iter(arguments(function)), None))
    function.body = [visitor.visit(node) for node in function.body]
    return visitor.found


class _Identities(ast.NodeTransformer):
    def __init__(self, own: str | None) -> None:
        self.own, self.found = own, False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node  # it is rewritten by itself

    def told(self, new: ast.expr, node: ast.AST) -> ast.AST:
        self.found = True
        return placed(new, node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        other = _folded(node.comparators[0])
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot)) and not isinstance(other, ast.Constant):
            same = call("is_same", node.left, other)
            return self.told(same if isinstance(node.ops[0], ast.Is) else ast.UnaryOp(ast.Not(), same), node)
        value = other.value if isinstance(other, ast.Constant) else None
        if len(node.ops) != 1 or not isinstance(value, int) or not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return node
        asked = call("is_truth" if isinstance(value, bool) else "is_number", node.left, other)
        return self.told(asked if isinstance(node.ops[0], ast.Is) else ast.UnaryOp(ast.Not(), asked), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        is_own = isinstance(node.value, ast.Name) and node.value.id == self.own == "self"
        if node.attr != "__class__" or is_own or not isinstance(node.ctx, ast.Load):
            return node
        return self.told(call("class_of", node.value), node)

    def visit_MatchClass(self, node: ast.MatchClass) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.cls, ast.Name) and node.cls.id in CLASSES:
            node.cls = placed(step(CLASSES[node.cls.id]), node)
            self.found = True
        return node

    def visit_MatchSingleton(self, node: ast.MatchSingleton) -> ast.AST:
        if not isinstance(node.value, bool):
            return node
        self.found = True
        return placed(ast.MatchClass(step("IsTrue" if node.value else "IsFalse"), [], [], []), node)


def _folded(node: ast.expr) -> ast.expr:
    """Return `-1` as the constant that it becomes."""
    if not isinstance(node, ast.UnaryOp) or not isinstance(node.op, ast.USub):
        return node
    number = node.operand.value if isinstance(node.operand, ast.Constant) else None
    return placed(ast.Constant(-number), node) if type(number) is int else node


def is_truth(value: Any, truth: bool) -> Any:
    """Return `value is truth`."""
    is_merged = isinstance(value, Tensor) and hasattr(value, MERGED_TRUTH)
    if not is_merged and not isinstance(value, SymBool):
        return value is truth
    note_rewritten("call")
    if truth:
        return value
    return merged_truth(value.logical_not()) if isinstance(value, Tensor) else torch.sym_not(value)


SMALL = range(-5, 257)
"""Whole numbers of which Python has one object each."""


def is_number(one: Any, other: Any) -> Any:
    """Return `one is other`; of whole numbers of which one is symbolic, whether they are equal and SMALL."""
    if one is other or SymInt not in (type(one), type(other)) or not {type(one), type(other)} <= {int, SymInt}:
        return one is other
    note_rewritten("call")
    if not all(each in SMALL for each in (one, other) if type(each) is int):
        return False
    return (one == other) & (one >= SMALL.start) & (one < SMALL.stop)


def class_of(value: Any) -> type:
    """Return `value.__class__`."""
    kind = type_of(value)
    return value.__class__ if kind is type(value) else kind


class _OfKind(type):
    """Metaclass of what stands for a number's class in a pattern."""

    def __instancecheck__(cls, value: Any) -> bool:
        return is_kind(value, KINDS[cls])


class Int(int, metaclass=_OfKind):
    """`int` of a pattern."""


class Float(float, metaclass=_OfKind):
    """`float` of a pattern."""


class Bool(int, metaclass=_OfKind):
    """`bool` of a pattern."""


KINDS: Mapping[type, type] = {Int: int, Float: float, Bool: bool}


class _OfTruth(type):
    """Metaclass of what stands for a truth value in a pattern."""

    def __instancecheck__(cls, value: Any) -> bool:
        answer = is_truth(value, cls is IsTrue)
        if depends_on_data(answer):
            raise RefusedError(WITHIN, cure=BY_IF)
        return bool(answer)


class IsTrue(metaclass=_OfTruth):
    """`True` of a pattern."""


class IsFalse(metaclass=_OfTruth):
    """`False` of a pattern."""
