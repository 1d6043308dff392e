"""A code frame: the lines around a place, with the marked span under them. Shared by the terminal and Markdown."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from fxport.diagnostics import source
from fxport.diagnostics.calls import cut
from fxport.diagnostics.escape import visible
from fxport.diagnostics.model import Place

TAB = "    "


@dataclass(frozen=True, slots=True)
class Line:
    """A numbered line of source as it is shown; `mark` stands under it, "" if nothing is marked."""

    number: int
    text: str
    mark: str = ""


def code_frame(place: Place, context: int = 1) -> list[Line]:
    """The marked line with `context` lines above and below; the snippet alone if the file is gone or has changed."""
    line = source.line_at(place.path, place.line)
    if line is None or place.column is None:
        return [Line(place.line, shown(place.snippet))] if place.snippet else []
    lines = source.lines_of(place.path)
    first, last = max(1, place.line - context), min(len(lines), place.line + context)
    frame = [Line(number, shown(lines[number - 1].rstrip("\r\n"))) for number in range(first, last + 1)]
    before = width(_expanded(cut(line, 1, place.column)))
    marked = width(_expanded(cut(line, place.column, place.end_column)))
    frame[place.line - first] = Line(place.line, shown(line), " " * before + "^" * max(1, marked))
    return frame


def shown(text: str | None) -> str:
    """Source as a terminal can show it: no tabs, nothing unseen, no blanks at its end."""
    return _expanded(text or "").rstrip()


def width(text: str) -> int:
    """The columns that a text takes on a terminal (Unicode Standard Annex 11; combining marks take none)."""
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def _expanded(text: str) -> str:
    return visible(text.replace("\t", TAB)).replace("\n", " ")
