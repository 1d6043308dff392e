"""The text for terminals: one cause, its line with a mark, one hint."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from fxport.diagnostics import rule_pages, rules
from fxport.diagnostics.amounts import plural
from fxport.diagnostics.edits import EditError, applied, diff
from fxport.diagnostics.escape import one_line, terminal, visible
from fxport.diagnostics.frame import code_frame
from fxport.diagnostics.log import Log
from fxport.diagnostics.model import Applicability, Finding, Fix, Level, Place
from fxport.diagnostics.paths import relative_to
from fxport.diagnostics.source import LIBRARY, USER, kind_of, line_at, lines_of, within_library

STYLES: Mapping[str, str] = MappingProxyType(
    {"error": "bold red", "warning": "bold yellow", "note": "bold cyan", "frame": "blue", "bold": "bold", "plain": ""}
)
Piece = tuple[str, str]  # text, key of STYLES
NEAR = 2
"""Lines between a finding and an edit that needs no place of its own."""

UNCHANGED = 10
"""Unchanged lines shown behind a change of a fix and before the next one; where there are more, a mark."""


def render(log: Log, *, color: bool = False, least: Level = Level.NOTE) -> str:
    """The open findings from the level `least` on, the worst last, where the eye is; then how many there are."""
    findings = [finding for finding in log.findings if finding.is_open and finding.level.rank >= least.rank]
    findings.sort(key=lambda finding: finding.level.rank)
    pieces = [piece for finding in findings for piece in (*_block(finding), ("\n", "plain"))]
    if summary := summary_of(log, least):
        pieces.append((f"{summary}\n", "bold"))
    return _colored(pieces) if color else terminal("".join(text for text, _ in pieces))


def summary_of(log: Log, least: Level = Level.NOTE) -> str:
    """ "2 errors, 1 note (3 suppressed)", from the level `least` on; "" if there is nothing to say."""
    findings = [finding for finding in log.findings if finding.level.rank >= least.rank]
    counts = Counter(finding.level for finding in findings if finding.is_open)
    told = [
        f"{counts[level]} {level.value}{'s' if counts[level] > 1 else ''}"
        for level in sorted(counts, key=lambda level: -level.rank)
    ]
    suppressed = sum(finding.suppression is not None for finding in findings)
    if not suppressed:
        return ", ".join(told)
    return f"{', '.join(told) or 'nothing open'} ({suppressed} suppressed)"


def place_text(place: Place) -> str:
    """model.py:12:9, relative to the working folder where the file is below it."""
    path = place.path if place.path.startswith("<") else relative_to(Path(place.path), Path.cwd()) or place.path
    column = f":{place.column}" if place.column else ""
    return f"{one_line(path)}:{place.line}{column}"


def advice_of(finding: Finding) -> str:
    """One thing to do: the first fix, else the rule's own hint."""
    if (fix := advised(finding)) is not None:
        return one_line(fix.description)
    return rule_pages.hint(finding.rule) if finding.rule.id in rules.RULES else ""


def advised(finding: Finding) -> Fix | None:
    """The first fix that leaves the model what it is."""
    return next((fix for fix in finding.fixes if fix.applicability is not Applicability.DECISION), None)


def code_of(finding: Finding) -> Sequence[str]:
    """The first fix as lines of code: to paste, or to take out (-) and put in (+). None of them for a note."""
    fix = advised(finding)
    if fix is None or finding.level is Level.NOTE:
        return ()
    if fix.code or not fix.edits:
        return (fix.code or "").splitlines()
    path = fix.edits[0].path
    text = "".join(lines_of(path))
    try:
        changed = applied(text, [edit for edit in fix.edits if edit.path == path])
    except EditError:  # the file has changed since
        return ()
    return list(_hunks(diff(text, changed, "", context=UNCHANGED).split("\n")[2:-1]))


def _hunks(lines: Sequence[str]) -> Iterator[str]:
    """The lines of a diff from the first change of each part to its last, so that what is between them is not lost."""
    starts = [number for number, line in enumerate(lines) if line.startswith("@@")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        changed = [number for number in range(start + 1, end) if lines[number][:1] in "+-"]
        if start != starts[0]:
            yield " …"
        yield from lines[changed[0] : changed[-1] + 1]


def module_text(finding: Finding) -> str:
    """encoder.layer.0.attention, and 11 more places"""
    more = finding.count - 1
    if finding.place is None:
        return f"{finding.count} places without a known line" if more else ""
    if not more:
        return one_line(finding.place.module or "")
    also = f"{plural(more, 'more place')}"
    return f"{one_line(finding.place.module)}, and {also}" if finding.place.module else f"this place and {also}"


def _block(finding: Finding) -> Iterator[Piece]:
    level = finding.level.value
    yield f"{level}[{one_line(finding.rule.id)}]", level
    yield f": {one_line(finding.message)}\n", "bold" if finding.level is not Level.NOTE else "plain"
    frame = code_frame(finding.place) if finding.place and finding.level is not Level.NOTE else []
    gutter = len(str(frame[-1].number)) if frame else 1
    if finding.place:
        yield f"{' ' * gutter}--> ", "frame"
        yield f"{place_text(finding.place)}\n", "plain"
    for line in frame:
        yield f"{line.number:>{gutter}} | ", "frame"
        yield f"{line.text}".rstrip() + "\n", "plain"
        if line.mark:
            yield f"{' ' * gutter} | ", "frame"
            yield f"{line.mark}\n", level
    for name, text in _remarks(finding):
        yield f"{' ' * gutter} = ", "frame"
        yield f"{name}: ", "bold"
        yield f"{text}\n", "plain"
    yield from _code(finding, gutter)


def _remarks(finding: Finding) -> Iterator[tuple[str, str]]:
    if module := module_text(finding):
        yield "in", module
    if finding.level is not Level.NOTE and finding.place and (line := _line_of_library(finding.place)):
        yield "library", line
    if finding.level is not Level.NOTE and (advice := advice_of(finding)):
        yield "help", f"{advice}{_where_to_edit(finding)}"


def _line_of_library(place: Place) -> str:
    """transformers/models/bert/modeling_bert.py:54 `if length > 2:`, where the marked line calls into a library."""
    frame = next(iter(place.stack), None)
    if frame is None or kind_of(place.path) != USER or kind_of(frame.path) != LIBRARY:
        return ""
    code = (line_at(frame.path, frame.line) or "").strip()
    return one_line(f"{within_library(frame.path)}:{frame.line}{code and f' `{code}`'}")


def _where_to_edit(finding: Finding) -> str:
    """ " At model.py:54:" for lines of code that are not those of the frame above."""
    fix, place = advised(finding), finding.place
    if fix is None or not fix.edits or not code_of(finding):
        return ""
    edit = fix.edits[0]
    near = place is not None and place.path == edit.path and abs(place.line - edit.line) <= NEAR
    return "" if near else f" At {place_text(Place(edit.path, edit.line))}:"


def _code(finding: Finding, gutter: int) -> Iterator[Piece]:
    """The code of the first fix: the text of the user's names is made visible, not run together."""
    for line in code_of(finding):
        yield f"{' ' * gutter} | ", "frame"
        yield f"{visible(line)}\n", "plain"


def _colored(pieces: Sequence[Piece]) -> str:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", soft_wrap=True, highlight=False)
    console.print(Text.assemble(*((text, STYLES[style]) for text, style in pieces)), end="")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
