"""`--fix`: the fixes that help are shown and written into the source."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics import Finding, Level
from fxport.diagnostics.edits import diff
from fxport.diagnostics.paths import relative_to
from fxport.diagnostics.source_text import source_text
from fxport.diagnostics.text import place_text
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.fixes import Fixed, fixed

if TYPE_CHECKING:
    from fxport.diagnostics.report import FailOn
    from fxport.exporter.validation.request import Request


def fix_source(request: Request, fail_on: FailOn) -> Fixed:
    """Try, show and write the fixes of one command line. Raises UsageError where a file cannot be written."""
    result = fixed(request, Level.NOTE if fail_on.value == "note" else Level.WARNING)
    if result.error is not None:
        print(f"fxport: no fix can be tried: {result.error}", file=sys.stderr)
    for each in result.found:
        print(f"fixed[{each.finding.rule.id}]: {each.fix.description} ({_where(each.finding)})")
    for path, text in result.texts.items():
        file = source_text(path)
        print(diff(file.text, text, relative_to(file.path, Path.cwd()) or file.path.name), end="")
        try:
            file.write(text)
        except OSError as error:
            raise UsageError(f"--fix: '{path}' cannot be written: {error}; nothing of it was changed.") from error
    if not result.found:
        print("fxport: no fix was found that helps; the source is unchanged.")
    return result


def _where(finding: Finding) -> str:
    return place_text(finding.place) if finding.place else "no place"
