"""Reporting policy of the user: levels of rules, and findings that are known, by a baseline or by comments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from fxport.diagnostics import Edit, Finding, Fix, Level
from fxport.diagnostics.definitions import definitions_of, foreign_lines
from fxport.diagnostics.edits import EditError
from fxport.diagnostics.log import Revision
from fxport.diagnostics.source_text import source_text
from fxport.exporter.sources.definition import definition_of
from fxport.exporter.sources.usage import UsageError


def levels_of(select: Sequence[str], ignore: Sequence[str], severity: Sequence[str]) -> Mapping[str, Level | None]:
    """The level of each rule that is named; None for one that is not wanted. Raises UsageError."""
    from fxport.diagnostics import policy

    pairs = [text.partition("=") for text in severity]
    if unclear := [name for name, sign, _ in pairs if not sign]:
        raise UsageError(f"--severity '{unclear[0]}' names no level; write RULE=error, =warning or =note.")
    try:
        return policy.levels(
            select=_split(select), ignore=_split(ignore), severity={name: level for name, _, level in pairs}
        )
    except ValueError as error:
        raise UsageError(f"{error}.") from error


def baseline_of(path: Path | None, named: str = "--baseline") -> Sequence[Finding] | None:
    """The findings of an earlier log. Raises UsageError for a file that is not one of fxport's.

    `named` is the option or the key that names it."""
    if path is None:
        return None
    from fxport.diagnostics.sarif import read_sarif
    from fxport.diagnostics.sarif.objects import SarifError

    try:
        return read_sarif(path)
    except SarifError as error:
        raise UsageError(f"{named} {error}; name a log that `fxport export --sarif` wrote.") from error
    except OSError as error:
        raise UsageError(f"{named} '{path}' cannot be read: {error.strerror or error}.") from error


def revisions_of(
    source: str, baseline: Sequence[Finding] | None, levels: Mapping[str, Level | None]
) -> Sequence[Revision]:
    """Fixes of this model alone, comments in the sources, then one for many, then the states since the baseline.

    `source` is SOURCE as typed; `levels` are those of rules, None for one that is not wanted.
    """
    from fxport.diagnostics.baseline import against
    from fxport.diagnostics.grouped import grouped
    from fxport.diagnostics.suppressions import by_comments

    model = definition_of(source)
    name = source.rpartition(":")[2].partition(".")[0]
    comments = by_comments([model.path] if model else [], name=name, levels=levels)
    first = (lambda findings: [within(each, source) for each in findings], comments, grouped)
    return first if baseline is None else (*first, against(baseline))


def within(finding: Finding, source: str, texts: Mapping[str, str] = MappingProxyType({})) -> Finding:
    """The finding without edits of what SOURCE does not lead to: a file may hold other models.

    In other files than SOURCE's a fix stays in the definition that the finding is in. A fix that loses all its edits is
    dropped where another one has edits. `texts` stand for files by their path.
    """
    if not any(fix.edits for fix in finding.fixes):
        return finding
    definition, name = definition_of(source), source.rpartition(":")[2].partition(".")[0]
    own = definition.path if definition else ""

    def is_meant(edit: Edit) -> bool:
        text = texts.get(edit.path) or source_text(edit.path).text
        if edit.path == own:
            return not any(edit.line in lines for lines in foreign_lines(text, name))
        around = next((lines for lines in definitions_of(text).values() if edit.line in lines), None)
        at = finding.place
        return around is None or at is None or at.path != edit.path or at.line in around

    def meant(fix: Fix) -> Fix:
        try:
            return replace(fix, edits=tuple(edit for edit in fix.edits if is_meant(edit)))
        except EditError:
            return replace(fix, edits=())

    fixes = [(fix, meant(fix)) for fix in finding.fixes]
    helps = any(kept.edits for _, kept in fixes)
    return replace(finding, fixes=tuple(kept for fix, kept in fixes if kept.edits or not (helps and fix.edits)))


def _split(names: Sequence[str]) -> list[str]:
    return [name.strip() for each in names for name in each.split(",") if name.strip()]
