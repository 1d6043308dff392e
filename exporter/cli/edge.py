"""The edge of the program: exceptions become exit codes here, and the report is written whatever happened."""

from __future__ import annotations

import shlex
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path

from diagnostics import BaselineState, Finding, Level, Log, Stop, rules
from diagnostics.escape import visible
from diagnostics.source import place_of_exception
from exporter.cli.definition import definition_of
from exporter.cli.exit_codes import CLEAN, FAULT, FINDINGS, INTERRUPTED
from exporter.cli.faces import FACES, Format, write_reports
from exporter.cli.policy import revisions_of
from exporter.cli.progress import progress_of
from exporter.cli.ranks import follows
from exporter.cli.usage import UsageError


class FailOn(StrEnum):
    """The lowest level of a finding that makes the exit code 1; `new-error`: an error that the baseline lacks."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    NEW_ERROR = "new-error"
    NEVER = "never"


class SarifProfile(StrEnum):
    """For whom SARIF is written: the keys of `diagnostics.sarif.PROFILES`."""

    FULL = "full"
    IDE = "ide"
    GITHUB = "github"
    GITLAB = "gitlab"


@dataclass(frozen=True, slots=True)
class Report:
    """Where and how a run is reported. `source` is SOURCE as typed: findings without a place are shown there.

    `levels` are those of rules by id, None for one that is not wanted; `baseline` the findings of an earlier run.
    `run` is the subcommand, `profile` for whom SARIF is written, `folder` takes all faces that are files.
    """

    source: str
    format: Format = Format.TEXT
    sarif: Path | None = None
    fail_on: FailOn = FailOn.ERROR
    levels: Mapping[str, Level | None] = field(default_factory=dict)
    baseline: Sequence[Finding] | None = None
    run: str = "export"
    profile: SarifProfile = SarifProfile.FULL
    folder: Path | None = None


def run(work: Callable[[Log], str], report: Report) -> int:
    """Do the work, report its findings, and return the exit code. `work` returns its summary as text.

    A `UsageError` flies on, and nothing is written. Everything else that ends the work is reported: findings at error
    level, a fault of ours, Ctrl-C. Of several ranks, only rank 0 reports.
    """
    log, started = Log(levels=report.levels), datetime.now(UTC)
    model = definition_of(report.source)
    for revision in revisions_of(model.path if model else None, report.baseline):
        log.revise(revision)
    summary, failure, code, wanted = "", None, FAULT, True
    try:
        with (
            nullcontext() if follows() else progress_of(log),
            redirect_stdout(sys.stderr),
        ):  # what the user's code prints is no part of the report
            summary = work(log)
        code = FINDINGS if fails(log, report.fail_on) else CLEAN
    except UsageError:
        wanted = False
        raise
    except Stop:
        code = FINDINGS
    except KeyboardInterrupt:
        code, failure = INTERRUPTED, "interrupted"
        print("fxport: interrupted", file=sys.stderr)
    except Exception as error:  # noqa: BLE001 - this is the edge: whatever is left is a fault of ours
        failure = f"{type(error).__name__}: {error}"
        command = shlex.join(["fxport", *sys.argv[1:]])
        log.report(rules.INTERNAL_ERROR, at=place_of_exception(error), error=error, command=command)
        print(f"{traceback.format_exc()}\nThe command was: {command}", file=sys.stderr)
    finally:
        if wanted and not follows():
            try:
                write_files(log, report, started, failure)
            finally:
                print_report(log, report.format, summary)
    return code


def fails(log: Log, fail_on: FailOn) -> bool:
    """Whether an open finding is as bad as `fail_on` or worse."""
    return any(finding.is_open and at_least(finding, fail_on) for finding in log.findings)


def at_least(finding: Finding, fail_on: FailOn) -> bool:
    """Whether a finding is as bad as `fail_on` or worse."""
    if fail_on is FailOn.NEW_ERROR:
        return finding.level is Level.ERROR and finding.baseline is not BaselineState.UNCHANGED
    return fail_on is not FailOn.NEVER and finding.level.rank >= Level(fail_on.value).rank


def print_report(log: Log, form: Format, summary: str) -> None:
    """Findings and summary to standard output; of what programs read the log alone, so that it can be parsed."""
    face = FACES[form]
    for text in (face.render(log), visible(summary) if face.has_summary else ""):
        if text.strip():
            print(text.rstrip("\n"))


def write_files(log: Log, report: Report, started: datetime, failure: str | None) -> None:
    """The SARIF file and the folder of reports, as far as they were asked for. Raises UsageError."""
    if report.sarif is None and report.folder is None:
        return
    from diagnostics import sarif

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
    faces = {form: partial(face.render, log) for form, face in FACES.items() if face.file}
    try:
        write_reports(document, faces, report.sarif, report.folder)
    except OSError as error:
        raise UsageError(f"'{error.filename}' cannot be written: {error.strerror}; name another place.") from error
