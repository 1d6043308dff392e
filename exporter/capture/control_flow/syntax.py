"""Small pieces of syntax trees that the templates are put together from."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeVar

STEPS = "_steps"
"""The name of the module `steps` in a rewritten function."""

Node = TypeVar("Node", bound=ast.AST)


def expression(text: str) -> ast.expr:
    return bare(ast.parse(text, mode="eval").body)


def statements(text: str) -> list[ast.stmt]:
    return [bare(node) for node in ast.parse(text).body]


def bare(tree: Node) -> Node:
    """Remove the places that the nodes had where they were parsed."""
    for node in ast.walk(tree):
        for attribute in node._attributes:
            if hasattr(node, attribute):
                delattr(node, attribute)
    return tree


def placed(tree: Node, like: ast.AST) -> Node:
    """Give the place of another node to all nodes that have none."""
    for node in ast.walk(tree):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, like)
    return tree


def step(name: str) -> ast.expr:
    """Refer to a function of the module `steps`."""
    return ast.Attribute(ast.Name(STEPS, ast.Load()), name, ast.Load())


def call(name: str, *arguments: ast.expr, **keywords: ast.expr) -> ast.Call:
    """Call a function of the module `steps`."""
    return ast.Call(step(name), list(arguments), [ast.keyword(key, value) for key, value in keywords.items()])


LAZY = frozenset(
    ["enumerate", "zip", "map", "filter", "chain", "islice", "takewhile", "dropwhile", "starmap", "pairwise", "batched"]
)
"""Functions that read an iterator no further than their own result is read."""


def left_early(source: ast.expr) -> ast.expr:
    """Return the source of a loop that data may end early; one that has a name may be an iterator that is read on.

    So may the arguments of `LAZY` functions, and the source of a generator.
    """
    if isinstance(source, (ast.Name, ast.Attribute, ast.Subscript)):
        return placed(call("unless_iterator", source), source)
    if isinstance(source, ast.Call) and ast.unparse(source.func).rpartition(".")[2] in LAZY:
        source.args = [*map(left_early, source.args)]
    elif isinstance(source, ast.GeneratorExp):
        source.generators[0].iter = left_early(source.generators[0].iter)
    return source


def is_call_of(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == f"{STEPS}.{name}"


def names_tuple(names: Sequence[str]) -> ast.expr:
    """Write names as a tuple of strings."""
    return ast.Tuple([ast.Constant(name) for name in names], ast.Load())


def deferred(value: ast.expr) -> ast.expr:
    """Make a function without parameters of an expression."""
    return placed(ast.Lambda(ast.arguments([], [], None, [], [], None, []), value), value)


def is_at(node: ast.expr | ast.stmt, lines: set[int]) -> bool:
    """Return whether an expression stands at one of the lines."""
    return any(node.lineno <= line <= (node.end_lineno or node.lineno) for line in lines)
