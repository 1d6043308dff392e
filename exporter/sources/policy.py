"""Reporting policy of the user: levels of rules, and findings that are known, by a baseline or by comments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fxport.diagnostics import Finding, Level
from fxport.diagnostics.log import Revision
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
    """Comments in the sources, that of the model among them, then one for many, then the states since the baseline.

    `source` is SOURCE as typed; `levels` are those of rules, None for one that is not wanted.
    """
    from fxport.diagnostics.baseline import against
    from fxport.diagnostics.grouped import grouped
    from fxport.diagnostics.suppressions import by_comments

    model = definition_of(source)
    name = source.rpartition(":")[2].partition(".")[0]
    comments = by_comments([model.path] if model else [], name=name, levels=levels)
    return (comments, grouped) if baseline is None else (comments, grouped, against(baseline))


def _split(names: Sequence[str]) -> list[str]:
    return [name.strip() for each in names for name in each.split(",") if name.strip()]
