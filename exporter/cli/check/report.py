"""The files that a check writes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from diagnostics import sarif
from diagnostics.paths import write_whole
from exporter.cli.check.faces import REPORTS
from exporter.cli.check.merge import log_of, merged
from exporter.cli.check.rows import Row

MOST_RUNS = 20
"""Runs of one file that GitHub takes; it refuses a file with more."""


def write_reports(rows: Sequence[Row], path: Path | None, folder: Path | None) -> None:
    """The SARIF file, and the folder of all reports. Raises OSError where a file cannot be written."""
    text = sarif.as_text(document(rows)) if path or folder else ""
    if path is not None:
        write_whole(path, text)
    if folder is not None:
        write_whole(folder / "report.sarif", text)
        for name, face in REPORTS.items():
            write_whole(folder / name, face(rows))


def document(rows: Sequence[Row]) -> Mapping[str, Any]:  # Any: JSON
    """A SARIF log with a run for each row, so that GitHub keeps the models apart; one run where they are too many."""
    if len(rows) > MOST_RUNS or not rows:
        return of_findings([finding for row in rows for finding in row.findings], "")
    first, *others = (of_findings(row.findings, row.id, row) for row in rows)
    runs: list[Any] = [run for each in (first, *others) for run in each["runs"]]
    return {**first, "runs": runs}


def of_findings(findings: Sequence[Any], name: str, row: Row | None = None) -> dict[str, Any]:
    about = sarif.About(model=name, run="check", command=sys.argv, version=metadata.version("fxport"))
    log = log_of(merged(findings))
    log.stages.extend(row.stages if row else ())
    return sarif.to_sarif(log, default_place=row.place if row else None, about=about)
