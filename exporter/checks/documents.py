"""The text of a check's report, and the files that it writes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fxport.diagnostics import Finding, Level, sarif
from fxport.diagnostics.formats import RENDERERS, Format, write_reports
from fxport.diagnostics.report import Report
from fxport.diagnostics.text import module_text, render
from fxport.exporter.checks.merge import key_of, log_of, merged
from fxport.exporter.checks.report_formats import REPORTS
from fxport.exporter.checks.rows import Row

RENDERED_BY_ROW = (Format.MARKDOWN, Format.JUNIT, Format.HTML)
MOST_MODELS = 5
"""Models of a finding that the text names."""

MOST_RUNS = 20
"""Runs of one file that GitHub takes; it refuses a file with more."""


def rendered(rows: Sequence[Row], form: Format, *, quiet: bool = False) -> str:
    """Findings of all rows in one of the forms, without the table of the rows. `quiet` leaves notes out of the text."""
    if form is Format.TEXT:
        return render(log_of(by_model(rows)), least=Level.WARNING if quiet else Level.NOTE)
    if form in RENDERED_BY_ROW:
        return REPORTS[form](rows)
    return RENDERERS[form].render(log_of(merged([finding for row in rows for finding in row.findings])))


def by_model(rows: Sequence[Row]) -> Sequence[Finding]:
    """The findings of all rows, each once, which name their models where there are several."""
    return [_of_models(each, rows) if len(rows) > 1 else each for each in merged([f for r in rows for f in r.findings])]


def _of_models(finding: Finding, rows: Sequence[Row]) -> Finding:
    """A finding whose module is told with the models that have it."""
    if finding.place is None:
        return finding
    key = key_of(finding)
    having = [row.id for row in rows if any(key_of(each) == key for each in row.findings)]
    more = [f"{len(having) - MOST_MODELS} more"] if len(having) > MOST_MODELS else []
    named = ", ".join([*having[:MOST_MODELS], *more])
    where = module_text(finding) if finding.place.module or finding.count > len(having) else ""
    return replace(finding, place=replace(finding.place, module=f"{named} ({where})" if where else named), count=1)


def write_files(rows: Sequence[Row], report: Report) -> None:
    """The SARIF file and the folder of all reports, as asked for. Raises OSError where a file cannot be written."""
    if report.sarif or report.folder:
        text = sarif.as_text(document(rows, report.profile))
        renderers = {form: partial(renderer, rows) for form, renderer in REPORTS.items()}
        write_reports(text, renderers, report.sarif, report.folder)


def document(rows: Sequence[Row], profile: str = "full", run: str = "check") -> Mapping[str, Any]:  # Any: JSON
    """A SARIF log with a run for each row, so that GitHub keeps the models apart; one run where they are too many."""
    if len(rows) > MOST_RUNS or not rows:
        return of_findings([finding for row in rows for finding in row.findings], "", profile, run)
    first, *others = (of_findings(row.findings, row.id, profile, run, row) for row in rows)
    runs: list[Any] = [run for each in (first, *others) for run in each["runs"]]
    return {**first, "runs": runs}


def of_findings(findings: Sequence[Any], name: str, profile: str, run: str, row: Row | None = None) -> dict[str, Any]:
    about = sarif.About(model=name, run=run, command=sys.argv)
    log = log_of(merged(findings))
    log.stages.extend(row.stages if row else ())
    return sarif.to_sarif(log, profile=profile, default_place=row.place if row else None, about=about)
