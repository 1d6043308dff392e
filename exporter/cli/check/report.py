"""Printed report of a check, and the files that it writes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fxport.diagnostics import sarif
from fxport.diagnostics.formats import RENDERERS, Format, write_reports
from fxport.diagnostics.report import Report
from fxport.exporter.checks.merge import log_of, merged
from fxport.exporter.checks.report_formats import REPORTS
from fxport.exporter.checks.rows import Row
from fxport.exporter.checks.table import print_table

PRINTED_BY_ROW = (Format.MARKDOWN, Format.JUNIT, Format.HTML)
MOST_RUNS = 20
"""Runs of one file that GitHub takes; it refuses a file with more."""


def print_rows(rows: Sequence[Row], form: Format) -> None:
    """To standard output. As text the findings and the table; as JSON and as annotations the findings alone."""
    log = log_of(merged([finding for row in rows for finding in row.findings]))
    text = REPORTS[form](rows) if form in PRINTED_BY_ROW else RENDERERS[form].render(log)
    if text := text.rstrip("\n"):
        print(text)
    if form is Format.TEXT:
        print_table(rows)


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
