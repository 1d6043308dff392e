"""Findings of any text and any number, in every format: nothing raises or is interpreted, and no validator refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxport.diagnostics import (
    Applicability,
    Edit,
    Fix,
    Frame,
    Level,
    Log,
    Place,
    Step,
    github,
    gitlab,
    json_log,
    junit,
    markdown,
    rules,
    text,
)
from fxport.diagnostics.escape import visible
from fxport.diagnostics.sarif import as_text, read_sarif, to_sarif
from tests.diagnostics.sarif_checks import breaches, strict

UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
NASTY = (
    "a\u202eb",
    "'\"`<script>alert(1)</script>",
    "x\n::error::forged",
    "%0A::warning::forged",
    "](https://evil.example)[x](1)",
    "\x1b[31mred",
    "\ud800",
    "|a|b|",
    "@everyone https://evil.example",
    "]]>&amp;",
    "\r\n",
    "```\n# head",
)
texts = st.text(max_size=30) | st.sampled_from(NASTY)
lines = st.integers(-2, 12)
columns = st.none() | st.integers(1, 40)


@st.composite
def places(draw: st.DrawFn, path: str) -> Place:
    start = draw(columns)
    end = None if start is None else start + draw(st.integers(1, 20))
    return Place(
        draw(st.just(path) | texts),
        draw(lines),
        start,
        end,
        draw(st.none() | texts),
        draw(st.none() | texts),
        draw(st.none() | texts),
        draw(st.none() | texts),
        tuple(draw(st.lists(st.builds(Frame, st.just(path) | texts, lines, texts), max_size=2))),
        draw(st.none() | texts),
    )


scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
facts = st.dictionaries(
    st.sampled_from(["op", "error", "output", "ratio", "worst", "name", "tags", "suggestions", "detail"]),
    scalars | st.lists(scalars, max_size=3) | st.dictionaries(texts, scalars, max_size=2),
    max_size=5,
)


def fixes(path: str) -> st.SearchStrategy[Fix]:
    number = st.integers(1, 9)
    edits = st.lists(
        st.builds(Edit, st.just(path) | texts.filter(bool), number, number, number, number, texts), max_size=2
    )
    return st.builds(Fix, texts, edits.map(tuple), st.sampled_from(Applicability), st.none() | texts)


@st.composite
def logs(draw: st.DrawFn, path: str) -> Log:
    log = Log()
    for _ in range(draw(st.integers(0, 4))):
        log.report(
            draw(st.sampled_from(sorted(rules.RULES.values(), key=lambda rule: rule.id))),
            draw(st.none() | places(path)),
            level=draw(st.none() | st.sampled_from(Level)),
            related=draw(st.lists(places(path), max_size=2)),
            fixes=draw(st.lists(fixes(path), max_size=2)),
            steps=draw(st.lists(st.builds(Step, texts, places(path), st.integers(0, 3)), max_size=2)),
            **draw(facts),
        )
    return log


@pytest.fixture(scope="module")
def source_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with wide characters, tabs, Windows line ends, direction marks, and a last line without an end."""
    path = tmp_path_factory.mktemp("src") / "odd name ü.py"
    path.write_bytes('y = "é😀"\r\n\tz = f(x)\r\n\r\n# \u202e back\r\nlast = g("`" * 3)'.encode())
    return str(path)


@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_sarif_of_any_log_is_valid_and_reads_back(data: st.DataObject, source_file: str) -> None:
    log = data.draw(logs(source_file))
    written = as_text(to_sarif(log))
    document = strict(written)
    assert list(breaches(document)) == []
    assert not UNSEEN.search(written)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "log.sarif"
        file.write_text(written, encoding="utf-8")
        back = read_sarif(file)
    assert [(f.rule, f.level, f.count, f.identity) for f in back] == [
        (f.rule, f.level, f.count, f.identity) for f in log.findings
    ]


@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_no_face_raises_or_lets_anything_unseen_through(data: st.DataObject, source_file: str) -> None:
    log = data.draw(logs(source_file))
    for each in (text, markdown, github, gitlab, json_log, junit):
        assert not UNSEEN.search(each.render(log)), each.__name__
    text.render(log, color=True)
    json.loads(json_log.render(log))
    ElementTree.fromstring(junit.render(log))


@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_each_finding_is_one_command_to_github(data: st.DataObject, source_file: str) -> None:
    log = data.draw(logs(source_file))
    commands = github.render(log).split("\n")[:-1]
    assert len(commands) == len(log.findings)
    for command in commands:
        assert re.match(r"::(error|warning|notice) [^:]*::(?!.*\n)", command), command


@pytest.mark.parametrize("nasty", NASTY)
def test_markdown_interprets_nothing(nasty: str) -> None:
    log = Log()
    log.report(rules.NO_ONNX_LOWERING, Place("m.py", 1, module=nasty), op=nasty, fixes=[Fix(nasty)])
    shown = markdown.render(log)
    assert "<script" not in shown
    assert "https://evil" not in shown
    assert not re.search(r"(?<!\\)\]\((?!https://fxport|m\.py)", shown)
    assert "@everyone" not in shown
    assert all(line.startswith(("## fxport", "### ❌")) for line in shown.splitlines() if line.startswith("#"))


@pytest.mark.parametrize("nasty", NASTY)
def test_sarif_messages_have_only_our_own_links(nasty: str) -> None:
    log = Log()
    log.report(rules.NO_ONNX_LOWERING, Place("m.py", 1), op=nasty)
    message = to_sarif(log)["runs"][0]["results"][0]["message"]["text"]  # type: ignore[index]
    assert "](" not in message


def test_visible_keeps_what_can_be_seen() -> None:
    assert visible("naïve 😀 中文 عربى\n\tx") == "naïve 😀 中文 عربى\n\tx"
    assert visible("a\u202eb\x1b\ud800") == "a\\u202eb\\x1b\\ud800"
