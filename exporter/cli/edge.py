"""The edge of the program: exceptions become exit codes here, and the report is written whatever happened."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from datetime import UTC, datetime
from typing import TextIO

from fxport.diagnostics import Log, Stop, rules
from fxport.diagnostics.escape import terminal
from fxport.diagnostics.exhaustion import exhausted, unusable
from fxport.diagnostics.report import Report, fails
from fxport.diagnostics.source import USER, kind_of, place_of_exception
from fxport.exporter.checks.supervised import expect
from fxport.exporter.cli.exit_codes import CLEAN, FAULT, FINDINGS, INTERRUPTED, USAGE
from fxport.exporter.cli.progress import progress_of
from fxport.exporter.cli.reported import print_report, write_files
from fxport.exporter.sources.policy import revisions_of
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.ranks import follows

QUIET: Mapping[str, str] = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
"""Variables by which transformers, before it is imported, is told to log errors alone and to show no bars."""


def run(work: Callable[[Log], str], report: Report) -> int:
    """Do the work, report its findings, and return the exit code. `work` returns its summary as text.

    A `UsageError` flies on, and nothing is written. Everything else that ends the work is reported: findings at error
    level, a fault of ours, an exit that the user's code asks for, Ctrl-C. Of several ranks, only rank 0 reports.
    """
    log, started = Log(levels=report.levels), datetime.now(UTC)
    for revision in revisions_of(report.source, report.baseline, report.levels):
        log.revise(revision)
    summary, failure, code, wanted = "", None, FAULT, True
    expect(report)
    try:
        with (
            nullcontext() if follows() else progress_of(log),
            redirect_stdout(sys.stderr),
            breakpoints_told(),
            nullcontext() if report.verbose else libraries_silent(),
        ):  # what the user's code prints is no part of the report
            summary = work(log)
        code = FINDINGS if fails(log, report.fail_on) else CLEAN
    except UsageError:
        wanted = False
        raise
    except Stop:
        code = FINDINGS
    except SystemExit as end:  # of the user's code: a command line that just ends says nothing
        error = f"SystemExit: {end.code}"
        log.report(rules.MODEL_FAILS, at=place_of_exception(end), name=report.source, error=error)
        code = FINDINGS
    except KeyboardInterrupt:
        code, failure = INTERRUPTED, "interrupted"
        print("fxport: interrupted", file=sys.stderr)
    except Exception as error:  # this is the edge: whatever is left is a fault of ours
        failure = f"{type(error).__name__}: {error}"
        if (told := exhausted(error)) is not None:
            log.report(rules.OUT_OF_RESOURCES, at=place_of_exception(error), resource=told[0], detail=told[1])
            code = USAGE
        elif (said := unusable(error)) is not None:
            wanted = False
            raise UsageError(f"{said}.") from error
        else:
            command = shlex.join(["fxport", *sys.argv[1:]])
            log.report(rules.INTERNAL_ERROR, at=place_of_exception(error), error=error, command=command)
            print(terminal(f"{traceback.format_exc()}\nThe command was: {command}"), file=sys.stderr)
    finally:
        if wanted and not follows():
            try:
                write_files(log, report, started, failure)
            finally:
                print_report(log, report, summary)
    return code


@contextmanager
def libraries_silent() -> Iterator[None]:
    """Keep warnings that libraries raise and log, at import above all, and their bars out; those of the user's stay.

    Errors that they log are shown. `--verbose` shows all.
    """
    shown, level = warnings.showwarning, logging.root.manager.disable
    ours = QUIET.keys() - os.environ.keys()

    def of_users(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if kind_of(filename) == USER:
            shown(message, category, filename, lineno, file, line)

    warnings.showwarning = of_users
    logging.disable(max(level, logging.WARNING))
    os.environ.update({name: QUIET[name] for name in ours})
    try:
        yield
    finally:
        if warnings.showwarning is of_users:
            warnings.showwarning = shown
        logging.disable(level)
        for name in ours:
            os.environ.pop(name, None)


@contextmanager
def breakpoints_told() -> Iterator[None]:
    """Make `breakpoint()` raise an error at its line during the block if there is no terminal."""
    if sys.stdin is not None and sys.stdin.isatty():
        yield
        return

    def told(*_: object, **__: object) -> None:
        raise RuntimeError("breakpoint() was called and there is no terminal to answer; remove it")

    before, sys.breakpointhook = sys.breakpointhook, told
    try:
        yield
    finally:
        sys.breakpointhook = before
