"""The format for people: one HTML file that needs nothing else, neither a network nor a server.

All of the user's text goes through jinja2's autoescaping; the template is `report.html`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources

from fxport.diagnostics import rule_pages, rules
from fxport.diagnostics.escape import visible
from fxport.diagnostics.frame import Line, code_frame
from fxport.diagnostics.model import Finding
from fxport.diagnostics.text import advice_of, module_text, place_text

CONTEXT = 3  # lines of source above and below a finding
BAR_END = 2.0  # parts of the limit at which a bar is full
_INDEX = re.compile(r"(?<![^.])\d+(?![^.])")


@dataclass(frozen=True, slots=True)
class Bar:
    """A measured value in parts of its limit: drawn up to twice the limit, with a mark at it."""

    label: str
    value: float
    text: str

    @property
    def width(self) -> float:
        """Percent of the whole bar; a value that is not finite fills it."""
        parts = self.value / BAR_END
        return round(100 * min(1.0, max(0.0, parts)), 1) if parts == parts else 100.0

    @property
    def over(self) -> bool:
        return not self.value <= 1.0  # also NaN


@dataclass(frozen=True, slots=True)
class Section:
    """One model. `cells` are those of its row in the table, by column; `stages` are (name, "passed", "failed" or
    "not run"); `modules` has the number of nodes by module path."""

    name: str
    verdict: str
    good: bool
    cells: Mapping[str, str]
    stages: Sequence[tuple[str, str]] = ()
    bars: Sequence[Bar] = ()
    modules: Mapping[str, int] = field(default_factory=dict)
    findings: Sequence[Finding] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """A module with its own nodes and those of its parts. Equal layers are one branch, `*`."""

    name: str
    own: int
    total: int
    parts: Sequence[Branch]


@dataclass(frozen=True, slots=True)
class Shown:
    """A finding as the page shows it."""

    finding: Finding
    message: str
    place: str
    owner: str
    advice: str
    help_uri: str
    lines: Sequence[Line]
    steps: Sequence[tuple[str, str]]


def render(title: str, summary: str, sections: Sequence[Section]) -> str:
    """The page. Its bytes depend on the arguments and on the source files of the findings only."""
    from jinja2 import Environment, StrictUndefined

    text = resources.files("fxport.diagnostics").joinpath("report.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    columns = list(dict.fromkeys(column for section in sections for column in section.cells))
    page = environment.from_string(text).render(
        title=visible(title), summary=visible(summary), columns=columns, sections=list(map(prepared, sections))
    )
    return page.rstrip() + "\n"


def prepared(section: Section) -> Mapping[str, object]:
    """Return the values of a section by their names in the template."""
    return {
        "name": visible(section.name),
        "verdict": section.verdict,
        "good": section.good,
        "cells": {column: visible(text) for column, text in section.cells.items()},
        "stages": section.stages,
        "bars": section.bars,
        "tree": tree_of(section.modules),
        "findings": [shown(finding) for finding in sorted(section.findings, key=lambda f: -f.level.rank)],
    }


def shown(finding: Finding) -> Shown:
    """The texts and the source of one finding."""
    place = finding.place
    return Shown(
        finding=finding,
        message=visible(finding.message),
        place=place_text(place) if place else "",
        owner=module_text(finding),
        advice=advice_of(finding),
        help_uri=rule_pages.help_uri(finding.rule) if finding.rule.id in rules.RULES else "",
        lines=code_frame(place, CONTEXT) if place else (),
        steps=[(visible(step.text), place_text(step.place)) for step in finding.steps],
    )


def tree_of(modules: Mapping[str, int]) -> Branch:
    """Modules as a tree by their dotted paths; indices are `*`, so that equal layers are counted together."""
    counts: dict[tuple[str, ...], int] = {}
    for path, count in modules.items():
        key = tuple(part for part in _INDEX.sub("*", path).split(".") if part)
        counts[key] = counts.get(key, 0) + count
    return _branch("", (), counts)


def _branch(name: str, path: tuple[str, ...], counts: Mapping[tuple[str, ...], int]) -> Branch:
    below = {key: count for key, count in counts.items() if key[: len(path)] == path}
    names = dict.fromkeys(key[len(path)] for key in below if len(key) > len(path))
    parts = list(_branches(path, names, below))
    own = below.get(path, 0)
    return Branch(name, own, own + sum(part.total for part in parts), parts)


def _branches(
    path: tuple[str, ...], names: Mapping[str, None], counts: Mapping[tuple[str, ...], int]
) -> Iterator[Branch]:
    for name in names:
        yield _branch(visible(name), (*path, name), counts)
