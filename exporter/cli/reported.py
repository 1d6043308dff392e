"""The report of a run: findings and summary on standard output, and the files that were asked for."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from functools import partial

from fxport.diagnostics import Level, Log, text
from fxport.diagnostics.escape import terminal
from fxport.diagnostics.formats import RENDERERS, Format, write_reports
from fxport.diagnostics.report import Report
from fxport.exporter.sources.definition import definition_of, placed
from fxport.exporter.sources.usage import unwritable


def print_report(log: Log, report: Report, summary: str) -> None:
    """Findings and summary to standard output; of what programs read the log alone, so that it can be parsed."""
    log.revise(partial(placed, source=report.source))
    renderer, quiet = RENDERERS[report.format], report.quiet and report.format is Format.TEXT
    found = text.render(log, color=sys.stdout.isatty(), least=Level.WARNING) if quiet else renderer.render(log)
    for said in (found, terminal(summary) if renderer.has_summary and not quiet else ""):
        if said.strip():
            print(said.rstrip("\n"))


def write_files(log: Log, report: Report, started: datetime | None, failure: str | None) -> None:
    """The SARIF file and the folder of reports, as far as they were asked for. Raises UsageError.

    `failure` is why fxport itself did not come to its end; None where it did.
    """
    if report.sarif is None and report.folder is None:
        return
    from fxport.diagnostics import sarif

    about = sarif.About(
        model=report.source,
        run=report.run,
        command=sys.argv,
        failure=failure,
        started=started,
        ended=datetime.now(UTC),
    )
    place = definition_of(report.source)
    document = sarif.as_text(sarif.to_sarif(log, profile=report.profile, default_place=place, about=about))
    renderers = {form: partial(renderer.render, log) for form, renderer in RENDERERS.items() if renderer.file}
    try:
        write_reports(document, renderers, report.sarif, report.folder)
    except OSError as error:
        raise unwritable(error.filename, error) from error
