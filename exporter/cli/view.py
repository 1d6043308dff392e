"""`fxport view PATH`: a report, or any SARIF log of fxport's, as a page in the browser. Needs no torch."""

from __future__ import annotations

import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from fxport.diagnostics.escape import terminal
from fxport.diagnostics.formats import page
from fxport.diagnostics.paths import write_whole
from fxport.exporter.sources.outputs import require_writable
from fxport.exporter.sources.source import require_file
from fxport.exporter.sources.usage import UsageError

PAGE = "report.html"
REPORT = Path(".fxport/report")
"""Folder that is shown by default."""


def command(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A SARIF file, or the folder of `fxport check --report`.")
    ] = REPORT,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="PATH", help="Where the page of a SARIF file is written.")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
) -> None:
    """Show a report or a SARIF log in the browser."""
    made = in_folder(path) if path.is_dir() else page_of(path, output)
    print(terminal(str(made)))
    if browser and not webbrowser.open(made.resolve().as_uri()):
        print(terminal(f"fxport: there is no browser here; open '{made}' in one."), file=sys.stderr)


def in_folder(folder: Path) -> Path:
    """The page in a folder of reports. Raises UsageError where there is none."""
    there = folder / PAGE
    if not there.is_file():
        raise UsageError(f"There is no {PAGE} in '{folder}'; `fxport check --report {folder}` writes one.")
    return there


def page_of(log: Path, output: Path | None) -> Path:
    """The page of a SARIF log, at `output` or in a folder for temporary files."""
    from fxport.diagnostics.sarif import read_sarif

    if not log.exists():
        raise UsageError(f"There is no file '{log}'; `fxport check --report {REPORT}` writes reports.")
    require_file(log)
    if output is not None:
        require_writable(output, "--output")
    try:
        findings = read_sarif(log)
    except (ValueError, OSError) as error:
        raise UsageError(f"{error}; name a log that fxport wrote.") from error
    target = output or Path(tempfile.mkdtemp(prefix="fxport-")) / f"{log.stem}.html"
    return write_whole(target, page(f"fxport: {log.name}", log.name, findings))
