"""The formats of a log on the command line: what `--format` prints, and the files of `--report DIR`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path

from fxport.diagnostics import Finding, Level, Log
from fxport.diagnostics.amounts import plural
from fxport.diagnostics.paths import write_whole


class Format(StrEnum):
    """Format in which the findings are printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    GITLAB = "gitlab"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    HTML = "html"


@dataclass(frozen=True, slots=True)
class Renderer:
    """`file` is its name in a folder of reports, "" for one that is only printed. After a format that programs read,
    the summary of the run is not printed."""

    render: Callable[[Log], str]
    file: str = ""

    @property
    def has_summary(self) -> bool:
        return not self.file


def as_text(log: Log) -> str:
    from fxport.diagnostics.text import render

    return render(log, color=sys.stdout.isatty())


def by(module: str) -> Callable[[Log], str]:
    """`render` of a module of diagnostics, which is imported on use."""
    return lambda log: import_module(f"fxport.diagnostics.{module}").render(log)


def as_html(log: Log) -> str:
    return page("fxport", "findings", log.findings)


def page(title: str, name: str, findings: Sequence[Finding]) -> str:
    """A page of HTML with these findings in a section of that name."""
    from fxport.diagnostics import html

    errors = sum(finding.is_open and finding.level is Level.ERROR for finding in findings)
    verdict = plural(errors, "error") if errors else "no errors"
    section = html.Section(name=name, verdict=verdict, good=not errors, cells={}, findings=findings)
    return html.render(title, plural(len(findings), "finding"), [section])


RENDERERS: Mapping[Format, Renderer] = {
    Format.TEXT: Renderer(as_text),
    Format.GITHUB: Renderer(by("github")),
    Format.JSON: Renderer(by("json_log"), "report.json"),
    Format.GITLAB: Renderer(by("gitlab"), "codequality.json"),
    Format.MARKDOWN: Renderer(by("markdown"), "summary.md"),
    Format.JUNIT: Renderer(by("junit"), "junit.xml"),
    Format.HTML: Renderer(as_html, "report.html"),
}

SARIF_FILE = "report.sarif"


def write_reports(
    sarif: str, renderers: Mapping[Format, Callable[[], str]], path: Path | None, folder: Path | None
) -> None:
    """Write SARIF to `path`, and it with all other formats to `folder`. Raises OSError where that cannot be."""
    if path is not None:
        write_whole(path, sarif)
    if folder is not None:
        write_whole(folder / SARIF_FILE, sarif)
        for form, render in renderers.items():
            write_whole(folder / RENDERERS[form].file, render())
