"""The format for test dashboards: JUnit XML. An error is a failure; a warning or a note passed, with output."""

from __future__ import annotations

from xml.etree import ElementTree

from fxport.diagnostics.escape import one_line
from fxport.diagnostics.log import Log
from fxport.diagnostics.model import Finding, Level
from fxport.diagnostics.text import advice_of, module_text, place_text


def render(log: Log, *, suite: str = "fxport") -> str:
    """One test case a finding; a single one that passed where there is none, as an empty suite reads as not run."""
    findings = log.findings
    failures = sum(_failed(finding) for finding in findings)
    skipped = sum(not finding.is_open for finding in findings)
    attributes = {
        "name": one_line(suite),
        "tests": str(max(1, len(findings))),
        "failures": str(failures),
        "errors": "0",
        "skipped": str(skipped),
        "time": f"{sum(seconds for _, seconds in log.stages):.3f}",
    }
    root = ElementTree.Element("testsuites")
    element = ElementTree.SubElement(root, "testsuite", attributes)
    for finding in findings:
        _case(element, finding)
    if not findings:
        ElementTree.SubElement(element, "testcase", {"classname": "fxport", "name": "no findings"})
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(suite: ElementTree.Element, finding: Finding) -> None:
    owner = finding.place.path if finding.place else "fxport"
    name = f"{finding.rule.id} {finding.rule.name}: {finding.message}"
    case = ElementTree.SubElement(suite, "testcase", {"classname": one_line(owner), "name": one_line(name)})
    if not finding.is_open:
        reason = finding.suppression.reason if finding.suppression else "absent"
        ElementTree.SubElement(case, "skipped", {"message": one_line(reason)})
    elif _failed(finding):
        failure = ElementTree.SubElement(
            case, "failure", {"type": one_line(finding.rule.id), "message": one_line(finding.message)}
        )
        failure.text = _body(finding)
    else:
        ElementTree.SubElement(case, "system-out").text = _body(finding)


def _failed(finding: Finding) -> bool:
    return finding.is_open and finding.level is Level.ERROR


def _body(finding: Finding) -> str:
    parts = (
        f"{finding.level.value}: {one_line(finding.message)}",
        place_text(finding.place) if finding.place else "",
        module_text(finding),
        advice_of(finding),
    )
    return "\n".join(part for part in parts if part)
