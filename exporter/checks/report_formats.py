"""Reports of all rows: JSON, JUnit, Markdown for a job's summary, HTML."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from xml.etree import ElementTree

from fxport.diagnostics import gitlab, html, json_log, markdown
from fxport.diagnostics.amounts import allowed
from fxport.diagnostics.escape import markdown as escaped
from fxport.diagnostics.escape import one_line, visible
from fxport.diagnostics.formats import Format
from fxport.diagnostics.text import render as as_text
from fxport.exporter.checks.merge import log_of, merged
from fxport.exporter.checks.rows import Row, Verdict
from fxport.exporter.checks.stages import stages_of
from fxport.exporter.checks.table import COLUMNS, counted

TITLE = "fxport check"
VERSION = 1
GOOD = (Verdict.PASSED, Verdict.EXPECTED, Verdict.NOT_VALIDATED)
SIGNS: Mapping[Verdict, str] = {
    Verdict.PASSED: "✅",
    Verdict.EXPECTED: "☑️",
    Verdict.NOT_VALIDATED: "⚠️",
    Verdict.FAILED: "❌",
    Verdict.NOT_CHECKED: "❌",
}


JUNIT: Mapping[Verdict, tuple[str, str]] = {
    Verdict.FAILED: ("failure", "failures"),
    Verdict.NOT_CHECKED: ("error", "errors"),
    Verdict.EXPECTED: ("skipped", "skipped"),
    Verdict.NOT_VALIDATED: ("skipped", "skipped"),
}
"""JUnit's tag for a verdict, and its attribute with the number of them."""


def as_json(rows: Sequence[Row]) -> str:
    """Rows with their facts and findings. New keys may come; those here stay."""
    entries = [
        {
            "id": row.id,
            "model": row.task.item.model,
            "opset": row.opset,
            "provider": row.task.item.provider,
            "verdict": row.verdict,
            "unchanged": row.cached,
            "seconds": round(row.seconds, 3),
            "stages": {name: round(seconds, 6) for name, seconds in row.stages},
            "facts": asdict(row.facts) if row.facts else None,
            "findings": json.loads(json_log.render(log_of(row.findings)))["findings"],
        }
        for row in rows
    ]
    text = json.dumps({"version": VERSION, "rows": entries})
    return json.dumps(json.loads(text, parse_constant=str), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_junit(rows: Sequence[Row]) -> str:
    """One test case a row. What is expected or not validated is skipped; a check that was not finished is an error."""
    counts = {name: sum(name in JUNIT.get(row.verdict, ()) for row in rows) for _, name in JUNIT.values()}
    seconds = sum(row.seconds for row in rows)
    totals = {"tests": str(len(rows)), **{name: str(count) for name, count in counts.items()}, "time": f"{seconds:.3f}"}
    root = ElementTree.Element("testsuites", {"name": TITLE, **totals})
    suite = ElementTree.SubElement(root, "testsuite", {"name": TITLE, **totals})
    for row in rows:
        names = {"classname": one_line(row.task.item.source), "name": one_line(row.id), "time": f"{row.seconds:.3f}"}
        case = ElementTree.SubElement(suite, "testcase", names)
        text = visible(as_text(log_of(row.findings)))
        if row.verdict in JUNIT:
            worst = max(row.findings, key=lambda finding: finding.level.rank, default=None)
            message = worst.message if worst else row.verdict.value
            ElementTree.SubElement(case, JUNIT[row.verdict][0], {"message": one_line(message)}).text = text
        elif text:
            ElementTree.SubElement(case, "system-out").text = text
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def as_markdown(rows: Sequence[Row]) -> str:
    """A table of the rows, then the findings: the summary of a job."""
    columns = {name: cell for name, cell in COLUMNS.items() if name not in ("model", "verdict")}
    told = [name for name, cell in columns.items() if any(cell(row) for row in rows)]
    lines = [f"| model | verdict | {' | '.join(told)} |", "|" + " --- |" * (2 + len(told))]
    for row in rows:
        cells = [
            escaped(row.id),
            f"{SIGNS[row.verdict]} {row.verdict}",
            *(escaped(columns[name](row)) for name in told),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    findings = markdown.render(log_of(merged([finding for row in rows for finding in row.findings])))
    return "\n".join([f"# {TITLE}: {counted(rows)}", "", *lines, "", findings])


def as_html(rows: Sequence[Row]) -> str:
    """The page of `fxport.diagnostics.html`, a section for each row."""
    return html.render(TITLE, counted(rows), [section_of(row) for row in rows])


def section_of(row: Row) -> html.Section:
    cells = {name: cell(row) for name, cell in COLUMNS.items() if name not in ("model", "verdict")}
    return html.Section(
        name=row.id,
        verdict=row.verdict.value,
        good=row.verdict in GOOD,
        cells={name: text for name, text in cells.items() if text},
        stages=stages_of(row),
        bars=bars_of(row),
        modules=row.facts.modules if row.facts else {},
        findings=row.findings,
    )


def bars_of(row: Row) -> list[html.Bar]:
    """Errors in parts of the error budget, and latency in parts of its own budget, else of eager PyTorch's."""
    if row.facts is None:
        return []
    bars = [
        html.Bar(f"error, {each.label}", each.ratio, f"{allowed(each.ratio)} (largest: {each.error:.2g})")
        for each in row.facts.samples
    ]
    if (slowdown := row.facts.slowdown) is not None:
        limit = row.task.terms.budget.latency or 1.0
        bars.append(html.Bar("latency", slowdown / limit, f"{slowdown:.2f} of eager PyTorch's"))
    return bars


def as_code_quality(rows: Sequence[Row]) -> str:
    """GitLab's report: the findings of all rows, equal ones once."""
    return gitlab.render(log_of(merged([finding for row in rows for finding in row.findings])))


REPORTS: Mapping[Format, Callable[[Sequence[Row]], str]] = {
    Format.HTML: as_html,
    Format.JSON: as_json,
    Format.JUNIT: as_junit,
    Format.MARKDOWN: as_markdown,
    Format.GITLAB: as_code_quality,
}
"""Formats that show rows, for the files of `--report DIR`."""
