"""Expressions that are Python's numbers and truth values, as far as a source tells: they have no methods of tensors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fxport.diagnostics.fixes.site import Function, Site

METHODS = frozenset(re.findall(r"\w+", "item numel nelement dim size_hint is_contiguous is_floating_point bit_length"))
"""Methods whose result is a number or a truth value."""

SIZES = frozenset(("shape", "size"))
"""The attribute and the method that give the sizes of a tensor."""

FUNCTIONS = frozenset(re.findall(r"\w+", "int float bool len ord hash isinstance issubclass hasattr callable id"))
"""Functions of Python whose result is a number or a truth value, whatever they are given."""

OF_NUMBERS = frozenset(re.findall(r"\w+", "abs max min sum round pow divmod"))
"""Functions of Python whose result is a number if what they are given are numbers."""

TESTS = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
"""Comparisons whose result is a truth value, whatever is compared."""


def is_number(site: Site, value: ast.expr | None, tensors: frozenset[str] = frozenset()) -> bool:
    """Return whether an expression may be a number or truth value of Python; `tensors` are names that are none."""
    return value is not None and _Numbers(site, tensors).holds(value, site.function)


class _Numbers:
    def __init__(self, site: Site, tensors: frozenset[str]) -> None:
        self.site, self.tensors = site, tensors
        self.seen: set[tuple[str, Function | None]] = set()

    def holds(self, value: ast.expr, within: Function | None) -> bool:
        match value:
            case ast.Constant():
                return isinstance(value.value, (int, float, complex))
            case ast.UnaryOp():
                return isinstance(value.op, ast.Not) or self.holds(value.operand, within)
            case ast.BinOp():
                return self.holds(value.left, within) and self.holds(value.right, within)
            case ast.BoolOp():
                return any(self.holds(each, within) for each in value.values)
            case ast.Compare():
                tests = any(isinstance(each, TESTS) for each in value.ops)
                return tests or all(self.holds(each, within) for each in (value.left, *value.comparators))
            case ast.IfExp():
                return self.holds(value.body, within) or self.holds(value.orelse, within)
            case ast.NamedExpr():
                return self.holds(value.value, within)
            case ast.Subscript():
                return not isinstance(value.slice, ast.Slice) and self._holds_numbers(value.value, within)
            case ast.Attribute():
                return (
                    value.attr in ("ndim", "itemsize")
                    or getattr(value.value, "id", "") == "math"
                    or self._of_attribute(value.attr)
                )
            case ast.Call():
                return self._of_call(value, within)
            case ast.Name():
                return value.id not in self.tensors and self._of_name(value.id, within)
            case _:
                return False

    def _of_call(self, call: ast.Call, within: Function | None) -> bool:
        if isinstance(call.func, ast.Attribute):
            name, owner = call.func.attr, getattr(call.func.value, "id", "")
            if name in METHODS or owner == "math" or (name == "size" and bool(call.args or call.keywords)):
                return True
            return owner == "self" and self._returned(name)
        name = getattr(call.func, "id", "")
        if name in FUNCTIONS:
            return True
        if name in OF_NUMBERS:
            return bool(call.args) and all(
                self.holds(each, within) or self._holds_numbers(each, within) for each in call.args
            )
        return self._returned(name)

    def _returned(self, name: str) -> bool:
        """Return whether a function of the file may return a number."""
        functions = (each for each in ast.walk(self.site.tree) if isinstance(each, Function) and each.name == name)
        for function in functions:
            if (name, function) not in self.seen:
                self.seen.add((name, function))
                values = (each.value for each in ast.walk(function) if isinstance(each, ast.Return))
                if any(each is not None and self.holds(each, function) for each in values):
                    return True
        return False

    def _of_attribute(self, name: str) -> bool:
        """Return whether a statement of the file sets an attribute of this name to a number."""
        if (name, None) in self.seen:
            return False
        self.seen.add((name, None))
        pairs = (
            (target, each.value)
            for each in ast.walk(self.site.tree)
            if isinstance(each, ast.Assign)
            for target in each.targets
            if isinstance(target, ast.Attribute) and target.attr == name
        )
        return any(self.holds(value, self.site.function_at(target)) for target, value in pairs)

    def _of_name(self, name: str, within: Function | None) -> bool:
        if within is None or (name, within) in self.seen:
            return False
        self.seen.add((name, within))
        if _is_declared(name, within):
            return True
        for target, value, taken_apart in _given(within):
            if any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(target)):
                numbers = self._holds_numbers(value, within) if taken_apart else self.holds(value, within)
                if numbers:
                    self.seen.discard((name, within))
                    return True
        self.seen.discard((name, within))
        return False

    def _holds_numbers(self, value: ast.expr, within: Function | None) -> bool:
        """Return whether what an index or a loop takes of an expression are numbers: `x.shape`, `range(n)`."""
        match value:
            case ast.Attribute():
                return value.attr in SIZES
            case ast.Call(func=ast.Attribute() as called):
                return called.attr == "tolist" or (called.attr == "size" and not value.args)
            case ast.Call(func=ast.Name(id=name)):
                if name in ("list", "tuple", "sorted", "reversed") and value.args:
                    return self._holds_numbers(value.args[0], within)
                return name == "range"
            case ast.Subscript():
                return isinstance(value.slice, ast.Slice) and self._holds_numbers(value.value, within)
            case ast.List() | ast.Tuple() | ast.Set():
                return any(self.holds(each, within) for each in value.elts)
            case ast.ListComp() | ast.GeneratorExp():
                return self.holds(value.elt, within)
            case ast.Name() if within is not None and (f"{value.id}[]", within) not in self.seen:
                self.seen.add((f"{value.id}[]", within))
                given = (
                    each
                    for target, each, apart in _given(within)
                    if not apart and getattr(target, "id", "") == value.id
                )
                return any(self._holds_numbers(each, within) for each in given)
            case _:
                return False


def _is_declared(name: str, function: Function) -> bool:
    """Return whether an argument is annotated as a number, or has one as its default."""
    given = function.args
    plain, defaults = [*given.posonlyargs, *given.args], given.defaults
    pairs = [
        *zip(reversed(plain), reversed(defaults), strict=False),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    kinds = {each.arg: each.annotation for each in (*plain, *given.kwonlyargs)}
    if isinstance(kind := kinds.get(name), ast.Name) and kind.id in ("int", "float", "bool"):
        return True
    values = (default for argument, default in pairs if argument.arg == name)
    return any(isinstance(each, ast.Constant) and isinstance(each.value, (int, float)) for each in values)


def _given(function: Function) -> Iterator[tuple[ast.expr, ast.expr, bool]]:
    """Yield each target of assignments and loops, with its value, and whether that is taken apart for it."""
    for each in ast.walk(function):
        if isinstance(each, ast.Assign):
            for target in each.targets:
                yield from _apart(target, each.value)
        elif isinstance(each, (ast.AnnAssign, ast.NamedExpr)) and each.value is not None:
            yield each.target, each.value, False
        elif isinstance(each, (ast.For, ast.comprehension)):
            called = getattr(each.iter.func, "id", "") if isinstance(each.iter, ast.Call) else ""
            if called == "enumerate" and isinstance(each.target, ast.Tuple):
                yield each.target.elts[0], ast.Constant(0), False
            else:
                yield each.target, each.iter, True


def _apart(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr, bool]]:
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        for one, other in zip(target.elts, value.elts, strict=False):
            yield from _apart(one, other)
    elif isinstance(target, ast.Name):
        yield target, value, False
    elif isinstance(target, (ast.Tuple, ast.List)):
        yield target, value, True
