"""Text, Markdown, GitHub, JSON and JUnit: one log in each format, as goldens, and further tests of each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fxport.diagnostics import (
    Frame,
    Level,
    Log,
    Place,
    SuppressedBy,
    Suppression,
    github,
    gitlab,
    json_log,
    junit,
    markdown,
    rules,
    text,
)
from fxport.diagnostics.frame import code_frame, width

RENDERERS = {
    "log.txt": text.render,
    "log.markdown.txt": markdown.render,
    "log.github.txt": github.render,
    "log.json": json_log.render,
    "log.gitlab.json": gitlab.render,
    "log.junit.xml": junit.render,
}


@pytest.mark.parametrize("name", RENDERERS)
def test_golden(name: str, log: Log, project: Path, golden: Callable[[str, str], None]) -> None:
    golden(name, RENDERERS[name](log).replace(str(project), "/ROOT"))


@pytest.mark.parametrize("name", RENDERERS)
def test_an_empty_log_has_a_face(name: str) -> None:
    shown = RENDERERS[name](Log())
    assert shown.strip() or name in ("log.txt", "log.github.txt")


def test_colour_is_the_plain_text_with_escapes(log: Log) -> None:
    colored = text.render(log, color=True)
    assert "\x1b[1;31m" in colored
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == text.render(log)


def test_long_lines_are_not_folded_in_colour() -> None:
    log = Log()
    log.report(rules.CAPTURE_FAILED, error="x" * 190)
    assert "x" * 190 in text.render(log, color=True)


def test_only_what_is_bad_enough_is_shown(log: Log) -> None:
    shown = text.render(log, least=Level.ERROR)
    assert "error[FXP3001]" in shown
    assert "note[" not in shown
    assert shown.endswith("2 errors\n")


def test_suppressed_findings_are_counted_and_not_shown(log: Log) -> None:
    suppression = Suppression(SuppressedBy.SOURCE, "meant")
    log.revise(lambda findings: [replace(finding, suppression=suppression) for finding in findings])
    assert text.render(log) == "nothing open (5 suppressed)\n"
    assert github.render(log) == ""
    suite = ElementTree.fromstring(junit.render(log))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("5", "0", "5")
    assert len(json.loads(json_log.render(log))["findings"]) == 5


def test_the_mark_stands_under_wide_characters_and_tabs(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text('if 1:\n\ts = "中é😀"; relu(x)\n', encoding="utf-8")
    _, line = code_frame(Place(str(file), 2, 14, 21), context=1)[:2]
    assert line.text == '    s = "中é😀"; relu(x)'
    assert width(line.text[: line.text.index("relu")]) == line.mark.index("^")
    assert line.mark.count("^") == len("relu(x)")


def test_the_code_of_a_fix_is_that_of_the_file_whatever_its_name(tmp_path: Path) -> None:
    file = tmp_path / "m\nodel.py"
    file.write_text("def f(x):\n    return x if x.sum() > 0 else -x\n", encoding="utf-8")
    log = Log()
    log.report(rules.DATA_DEPENDENT_CONTROL_FLOW, Place(str(file), 2, 17, 28), detail="")
    (finding,) = log.findings
    shown = ["-    return x if x.sum() > 0 else -x", "+    return torch.where(x.sum() > 0, x, -x)"]
    assert text.code_of(finding) == shown


def test_a_file_that_is_gone_shows_what_was_captured() -> None:
    log = Log()
    log.report(rules.NO_ONNX_LOWERING, Place("/gone/m.py", 7, snippet="y = foo(x)"), op="foo")
    assert " --> /gone/m.py:7\n7 | y = foo(x)\n" in text.render(log)


def test_the_line_of_a_library_stands_beside_the_users(tmp_path: Path) -> None:
    library, model = tmp_path / "site-packages" / "nets" / "block.py", tmp_path / "m.py"
    library.parent.mkdir(parents=True)
    library.write_text("def block(x):\n    if x.sum() > 2:\n        return x\n")
    model.write_text("y = block(x)\n")
    stack = (Frame(str(library), 2, "block"), Frame(str(model), 1, "forward"))
    log = Log()
    log.report(rules.DATA_DEPENDENT_CONTROL_FLOW, at=Place(str(model), 1, stack=stack), detail="a branch")
    assert "  = library: nets/block.py:2 `if x.sum() > 2:`\n" in text.render(log)


def test_json_says_what_is_where(log: Log) -> None:
    document = json.loads(json_log.render(log))
    assert document["worst"] == "error"
    assert document["stages"] == [{"name": "capture", "seconds": 1.0}, {"name": "lower", "seconds": 1.0}]
    twist = document["findings"][1]
    assert (twist["rule"], twist["count"], twist["place"]["line"], twist["place"]["column"]) == ("FXP3006", 12, 6, 27)


def test_annotations_of_files_elsewhere_have_no_wrong_path(tmp_path: Path, project: Path) -> None:
    log = Log()
    log.report(rules.NO_ONNX_LOWERING, Place("/elsewhere/a,b:c.py", 7), op="x")
    assert github.render(log, root=tmp_path).startswith("::error file=/elsewhere/a%2Cb%3Ac.py,line=7,title=")


def test_gitlab_reads_one_entry_a_finding(log: Log) -> None:
    entries = json.loads(gitlab.render(log))
    assert len(entries) == len(log.findings)
    assert all(set(each) == {"description", "check_name", "fingerprint", "severity", "location"} for each in entries)
    assert len({each["fingerprint"] for each in entries}) == len(entries)
    by_rule = {each["check_name"].split()[0]: each for each in entries}
    assert by_rule["FXP4002"]["severity"] == "minor"
    assert by_rule["FXP4002"]["location"] == {"path": "my model.py", "lines": {"begin": 7}}
    assert by_rule["FXP3001"]["severity"] == "major"
