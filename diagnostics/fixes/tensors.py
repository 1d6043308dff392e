"""Names and expressions that are no tensors, as far as the source of a function tells."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fxport.diagnostics.fixes.site import Site

CONTAINERS = (ast.List, ast.ListComp, ast.Dict, ast.DictComp, ast.Set, ast.SetComp, ast.GeneratorExp)
"""Displays and comprehensions of values that are no tensors."""

MAKERS = frozenset(
    re.findall(r"\w+", "dict list set frozenset tuple deque defaultdict Counter OrderedDict range zip map")
)
"""Functions of Python's that give containers and iterators."""

OF_LISTS = frozenset(re.findall(r"\w+", "append extend insert pop setdefault update items keys values"))
"""Methods that only containers have."""

DTYPES = re.compile(r"(float|int|uint|complex|bfloat|bool|double|half|long|short)\d*(_\w+)?")
"""Names of torch that are dtypes."""


def is_no_tensor(site: Site, value: ast.expr | None) -> bool:
    """Return whether an expression is None, text, a dtype or a container as the source tells.

    No operator can choose between such values.
    """
    if isinstance(value, ast.Constant):
        return value.value is None or value.value is ... or isinstance(value.value, (str, bytes))
    if isinstance(value, ast.IfExp):
        return is_no_tensor(site, value.body) or is_no_tensor(site, value.orelse)
    if isinstance(value, ast.BinOp):
        return is_no_tensor(site, value.left) or is_no_tensor(site, value.right)
    if isinstance(value, ast.Subscript):
        return isinstance(value.slice, ast.Slice) and is_no_tensor(site, value.value)
    if isinstance(value, ast.Attribute):
        return isinstance(value.value, ast.Name) and value.value.id == "torch" and bool(DTYPES.fullmatch(value.attr))
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in MAKERS
    if isinstance(value, ast.Name):
        return value.id in _containers(site)
    return isinstance(value, (*CONTAINERS, ast.Tuple, ast.JoinedStr, ast.Lambda))


def are_loop_numbers(site: Site, test: ast.expr) -> bool:
    """Return whether all names of a test are numbers of turns, `for k in range(n)`, which are plain in Python."""
    nodes = [*ast.walk(site.function)] if site.function is not None else []
    numbers = {name for each in nodes if isinstance(each, ast.For) for name in _numbers_of(each)}
    names = {each.id for each in ast.walk(test) if isinstance(each, ast.Name)}
    return bool(names) and names <= numbers


def _numbers_of(loop: ast.For) -> Iterator[str]:
    called = getattr(loop.iter.func, "id", "") if isinstance(loop.iter, ast.Call) else ""
    target = loop.target.elts[0] if called == "enumerate" and isinstance(loop.target, ast.Tuple) else loop.target
    if called in ("range", "enumerate") and isinstance(target, ast.Name):
        yield target.id


def _containers(site: Site) -> set[str]:
    """Return the names of a function that are given containers in it, or on which methods of containers are called."""
    nodes = [*ast.walk(site.function)] if site.function is not None else []
    return {*_given(nodes), *_used(nodes)}


def _given(nodes: list[ast.AST]) -> Iterator[str]:
    for each in nodes:
        if isinstance(each, (ast.Assign, ast.AnnAssign)):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            pairs = (pair for target in targets for pair in _pairs(target, each.value))
            yield from (name for name, value in pairs if _is_container(value))


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the names of a target, each with what it is given."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, other in zip(target.elts, value.elts, strict=False):
            yield from _pairs(one, other)


def _is_container(value: ast.expr | None) -> bool:
    made = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in MAKERS
    return made or isinstance(value, CONTAINERS)


def _used(nodes: list[ast.AST]) -> Iterator[str]:
    for each in nodes:
        called = each.func if isinstance(each, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in OF_LISTS and isinstance(called.value, ast.Name):
            yield called.value.id
