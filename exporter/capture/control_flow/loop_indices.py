"""The parts of an index, as they stand in the text of a loop."""

from __future__ import annotations

import ast
import copy

from exporter.capture.control_flow.loop_heads import expression


def elements_of(index: ast.expr) -> list[ast.expr]:
    return index.elts if isinstance(index, ast.Tuple) else [index]


def uncut(element: ast.expr) -> ast.expr:
    return ast.Slice() if isinstance(element, ast.Slice) else element


def is_plain(node: ast.expr) -> bool:
    """`:`, `...`, None, or a whole number."""
    if isinstance(node, ast.Slice):
        return node.lower is None and node.upper is None and node.step is None
    return isinstance(node, ast.Constant) and (node.value is None or node.value is ... or type(node.value) is int)


def as_value(node: ast.expr) -> ast.expr:
    return expression("slice(None)") if isinstance(node, ast.Slice) else copy.deepcopy(node)
