"""The whole of `fxport check`: manifest → items → rows → reports."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fxport.diagnostics import rules
from fxport.diagnostics.amounts import plural
from fxport.diagnostics.formats import Format
from fxport.exporter.checks import init, lock
from fxport.exporter.checks.documents import rendered, write_files
from fxport.exporter.checks.executors import Workers
from fxport.exporter.checks.items import tasks_of
from fxport.exporter.checks.manifest import find, load
from fxport.exporter.checks.pool import Stage
from fxport.exporter.checks.rows import Row, Verdict
from fxport.exporter.checks.running import OUTPUT, outcomes, prepare
from fxport.exporter.checks.table import print_table
from fxport.exporter.cli.check.progress import Progress
from fxport.exporter.cli.exit_codes import CLEAN, FAULT, FINDINGS, INTERRUPTED
from fxport.exporter.cli.reporting import Reporting
from fxport.exporter.sources.outputs import require_folder
from fxport.exporter.sources.settings import unread_in
from fxport.exporter.sources.usage import unwritable


@dataclass(frozen=True, slots=True)
class Request:
    """One command line of `fxport check`, as it was typed."""

    models: Sequence[str]
    manifest: Path | None
    workers: Workers
    cached: bool
    update: bool
    output: Path | None
    reporting: Reporting


def written_manifest(folder: Path) -> str:
    """`--init`; returns what to say."""
    path, found = init.write(folder)
    unread = [f" '{each}' is no Python that can be read, and was left out." for each in init.unread(folder)]
    return f"{path.name}: {plural(len(found), 'model')}.{''.join(unread)} Read it, then run `fxport check`."


def check(request: Request) -> int:
    """Check all items, print and write the reports, and return the exit code."""
    manifest = request.manifest or find(Path.cwd())
    folder = manifest.resolve().parent
    models = load(manifest)
    if request.manifest is None and (said := unread_in(folder)):
        print(f"fxport: {said}", file=sys.stderr)
    report = request.reporting.with_settings("check", "", models, folder)
    tasks = tasks_of(models, request.models)
    output = (request.output or folder / OUTPUT).resolve()
    require_folder(output, "--output")
    baseline = folder / lock.NAME
    held = lock.read(baseline)
    prepare(output)
    events = outcomes(tasks, manifest.resolve(), output, report.fail_on, request.workers, cached=request.cached)
    rows: dict[str, Row] = {}
    code = None
    try:
        with Progress(len(tasks), quiet=report.quiet) as progress:
            for event in events:
                if isinstance(event, Stage):
                    progress.show(event)
                else:
                    rows[event.id] = event
                    progress.done(event)
    except KeyboardInterrupt:
        print("fxport: interrupted", file=sys.stderr)
        code = INTERRUPTED
    ordered = [rows[task.item.id] for task in tasks if task.item.id in rows]
    if not request.update:
        ordered = [lock.compared(row, held, report.fail_on) for row in ordered]
    told = [row.told(report.levels, report.fail_on) for row in ordered]
    print_rows(told, report.format, quiet=report.quiet)
    try:
        write_files(told, report)
        if request.update:
            known = [task.item.id for task in tasks_of(models)]
            lock.write(baseline, lock.updated(held, ordered, known))
            done = [row for row in ordered if row.verdict is not Verdict.NOT_CHECKED]
            print(f"{baseline.name} written: {plural(len(done), 'check')}", file=sys.stderr)
    except OSError as error:
        raise unwritable(error.filename, error) from error
    return exit_code(told) if code is None else code


def exit_code(rows: Sequence[Row]) -> int:
    """FAULT where fxport itself failed, FINDINGS where a row is not as it should be, else CLEAN."""
    if any(finding.rule == rules.INTERNAL_ERROR for row in rows for finding in row.findings):
        return FAULT
    return FINDINGS if any(row.verdict in (Verdict.FAILED, Verdict.NOT_CHECKED) for row in rows) else CLEAN


def print_rows(rows: Sequence[Row], form: Format, *, quiet: bool = False) -> None:
    """Print the report, and below its text the table; `quiet` leaves notes and the table out of the text."""
    if shown := rendered(rows, form, quiet=quiet).rstrip("\n"):
        print(shown)
    if form is Format.TEXT and not quiet:
        print_table(rows)
