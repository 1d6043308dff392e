"""Annotations of a GitHub Actions run: workflow commands, one line a finding."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from fxport.diagnostics.escape import command_data, command_property, one_line
from fxport.diagnostics.log import Log
from fxport.diagnostics.model import Finding, Level, Place
from fxport.diagnostics.paths import root_for, uri_of
from fxport.diagnostics.text import advice_of

COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


def render(log: Log, *, root: Path | None = None) -> str:
    """The open findings, the worst first: GitHub shows 10 of each level in a step."""
    findings = sorted((finding for finding in log.findings if finding.is_open), key=lambda finding: -finding.level.rank)
    base = root or root_for([finding.place.path for finding in findings if finding.place])
    return "".join(f"{_command(finding, base)}\n" for finding in findings)


def _command(finding: Finding, root: Path) -> str:
    properties = {**(_position(finding.place, root) if finding.place else {})}
    properties["title"] = f"{finding.rule.id} {finding.rule.name}"
    listed = ",".join(f"{name}={command_property(value)}" for name, value in properties.items())
    more = f" ({finding.count} times)" if finding.count > 1 else ""
    advice = f" What to do: {advice_of(finding)}" if advice_of(finding) else ""
    return f"::{COMMANDS[finding.level]} {listed}::{command_data(one_line(finding.message) + more + advice)}"


def _position(place: Place, root: Path) -> dict[str, str]:
    uri, relative = uri_of(place.path, root)
    position = {"file": unquote(uri) if relative else place.path, "line": str(place.line)}
    if place.column is not None:
        position["col"] = str(place.column)
    if place.end_column is not None:
        position["endColumn"] = str(place.end_column)
    return position
