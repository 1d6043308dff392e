"""Edits as text: applied to a source, shown as a diff, and followed from old lines to new ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from itertools import pairwise

from fxport.diagnostics.calls import utf16_length
from fxport.diagnostics.errors import FxportError
from fxport.diagnostics.model import Edit

Position = tuple[int, int]  # line and UTF-16 column, both from 1


class EditError(FxportError, ValueError):
    """Edits that do not fit the text or each other. The text says which."""


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text after all edits. Equal edits count once; insertions at one place stand in the order given.

    Raises EditError where two edits overlap or one lies outside the text.
    """
    ordered = in_order(edits)
    for before, after in pairwise(ordered):
        if start_of(after) < end_of(before):
            raise EditError(f"two edits meet at line {after.line}")
    lines = text.splitlines(keepends=True)
    for edit in reversed(ordered):
        start, end = _offset(lines, start_of(edit)), _offset(lines, end_of(edit))
        text = text[:start] + edit.text + text[end:]
    return text


def in_order(edits: Iterable[Edit]) -> Sequence[Edit]:
    """The edits without repetition, from the first place to the last."""
    return sorted(dict.fromkeys(edits), key=start_of)


def meet(one: Iterable[Edit], other: Iterable[Edit]) -> bool:
    """Return True if two fixes touch the same text, so that only one of them can be applied."""
    theirs = list(other)
    return any(
        edit.path == each.path and edit != each and start_of(edit) <= end_of(each) and start_of(each) <= end_of(edit)
        for edit in one
        for each in theirs
    )


def diff(old: str, new: str, path: str, *, context: int = 2) -> str:
    """A unified diff, as `git apply` takes it; "" if nothing differs."""
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}", n=context
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def moved(line: int, edits: Iterable[Edit]) -> tuple[int, int]:
    """First and last line, after the edits, of what was on `line` before: a replaced line becomes all of its text."""
    first = last = line
    for edit in in_order(edits):
        added = edit.text.count("\n")
        grown = added - (edit.end_line - edit.line)
        if edit.end_line < line or (edit.end_line == line and edit.end_column == 1):
            first, last = first + grown, last + grown
        elif edit.line <= line:
            first, last = first - (line - edit.line), last - (line - edit.line) + added
    return first, max(first, last)


def start_of(edit: Edit) -> Position:
    return edit.line, edit.column


def end_of(edit: Edit) -> Position:
    return edit.end_line, edit.end_column


def _offset(lines: Sequence[str], position: Position) -> int:
    """Return the offset of a position in the text, in characters. The line after the last is the end of the text."""
    line, column = position
    before = sum(map(len, lines[: line - 1]))
    if line == len(lines) + 1 and column == 1:
        return before
    if not 1 <= line <= len(lines) or not 1 <= column <= utf16_length(lines[line - 1]) + 1:
        raise EditError(f"there is no column {column} of a line {line}")
    units = lines[line - 1].encode("utf-16-le", "surrogatepass")
    return before + len(units[: 2 * (column - 1)].decode("utf-16-le", "replace"))
