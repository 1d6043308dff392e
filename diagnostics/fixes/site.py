"""The code around a finding as a tree, and edits of its nodes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from fxport.diagnostics import source
from fxport.diagnostics.calls import utf16_column
from fxport.diagnostics.model import Edit, Finding, Fix, Place

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Site:
    """Site of a fix: a finding, and the file to edit, which need not be the file of the finding's place."""

    finding: Finding
    path: str
    text: str
    tree: ast.Module

    @property
    def facts(self) -> dict[str, str]:
        """The facts of the finding as text."""
        return {name: str(value) for name, value in self.finding.facts.items()}

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return _parents(self.tree)

    @cached_property
    def expression(self) -> ast.expr | None:
        """The largest expression whose columns are those of the finding's place."""
        place = self._own_place()
        if place is None or place.column is None:
            return None
        span = (place.line, place.line, place.column, place.end_column)
        own = (each for each in _expressions(self.tree).get(place.line, ()) if self._span(each) == span)
        return next(own, None)  # they are listed from the outside in

    @cached_property
    def statement(self) -> ast.stmt | None:
        """The innermost statement of the finding's line."""
        place = self._own_place()
        if place is None:
            return None
        found = [node for node in _statements(self.tree) if _holds(node, place.line)]
        return max(found, key=lambda node: (node.lineno, -(node.end_lineno or 0)), default=None)

    @cached_property
    def function(self) -> Function | None:
        """The innermost function around the finding's line."""
        return self.function_at(self.statement)

    def function_at(self, node: ast.AST | None) -> Function | None:
        """Return the innermost function around a node, or the node if it is one."""
        while node is not None and not isinstance(node, Function):
            node = self.parents.get(node)
        return node

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the enclosing nodes of a node, from the innermost to the outermost."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def code(self, node: ast.AST) -> str:
        """The source of a node, as it is written."""
        first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        if first is None or last is None:
            return ast.unparse(node)
        rest = "\n".join(self.lines[first - 1 : last])  # get_source_segment reads the whole file
        moved = ast.copy_location(ast.Pass(), node)
        moved.lineno, moved.end_lineno = 1, last - first + 1
        return ast.get_source_segment(rest, moved) or ast.unparse(node)

    def operand(self, node: ast.expr) -> str:
        """The source of an expression, in brackets unless it binds as tightly as a name."""
        tight = isinstance(node, (ast.Name, ast.Call, ast.Attribute, ast.Subscript))
        return self.code(node) if tight else f"({self.code(node)})"

    def indent(self, node: ast.stmt) -> str:
        return self.lines[node.lineno - 1][: node.col_offset]

    def replaced(self, node: ast.AST, text: str, *, until: ast.AST | None = None) -> Edit:
        """The node, or all from it to the end of `until`, becomes `text`."""
        assert isinstance(node, (ast.expr, ast.stmt))
        last = until if isinstance(until, (ast.expr, ast.stmt)) else node
        (line, _, start, _), (_, end_line, _, end) = self._span(node), self._span(last)
        return Edit(self.path, line, start, end_line, end, text)

    def after(self, node: ast.AST, text: str) -> Edit:
        """Text directly behind a node, on its line."""
        edit = self.replaced(node, text)
        return Edit(self.path, edit.end_line, edit.end_column, edit.end_line, edit.end_column, text)

    def above(self, node: ast.stmt, text: str) -> Edit:
        """Lines above a statement, at its depth."""
        block = "".join(f"{self.indent(node)}{line}\n" for line in text.split("\n"))
        return Edit(self.path, node.lineno, 1, node.lineno, 1, block)

    def below(self, node: ast.stmt, text: str) -> Edit:
        """Lines below a statement, at its depth; a blank line in `text` stays blank."""
        indent = self.indent(node)
        block = "".join(f"\n{indent}{line}".rstrip(" ") for line in text.split("\n"))
        return self.after(node, block)

    def _own_place(self) -> Place | None:
        place = self.finding.place
        return place if place is not None and place.path == self.path else None

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int, int, int]:
        """First and last line, first column and the one after the last, in UTF-16 units from 1."""
        end_line = node.end_lineno or node.lineno
        start = utf16_column(self.lines[node.lineno - 1], node.col_offset) + 1
        return node.lineno, end_line, start, utf16_column(self.lines[end_line - 1], node.end_col_offset or 0) + 1


def site_of(finding: Finding, path: str) -> Site | None:
    """None for a file that is not the user's, is gone, or is not Python."""
    if source.kind_of(path) != source.USER:
        return None
    text = "".join(source.lines_of(path))
    tree = _parsed(text) if "\r" not in text and "\f" not in text else None  # ast counts other line ends otherwise
    return None if tree is None or not text else Site(finding, path, text, tree)


def fix(description: str, *edits: Edit) -> Fix:
    """A fix that nobody has tried yet."""
    return Fix(description, edits)


@lru_cache(maxsize=16)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=16)
def _statements(tree: ast.Module) -> list[ast.stmt]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


@lru_cache(maxsize=16)
def _expressions(tree: ast.Module) -> Mapping[int, Sequence[ast.expr]]:
    """Line → the expressions that begin on it, from the outside in."""
    found: dict[int, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            found.setdefault(node.lineno, []).append(node)
    return found


@lru_cache(maxsize=16)
def _parents(tree: ast.Module) -> dict[ast.AST, ast.AST]:
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def _holds(node: ast.stmt, line: int) -> bool:
    first = min((each.lineno for each in getattr(node, "decorator_list", ())), default=node.lineno)
    return first <= line <= (node.end_lineno or node.lineno)
