"""The reports of a check: what they say, that nothing of the user's is interpreted, and that a browser shows them."""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fxport.diagnostics import Finding, Log, Place, rules
from fxport.diagnostics.formats import RENDERERS, SARIF_FILE, Format
from fxport.diagnostics.report import FailOn, Report
from fxport.exporter.checks.documents import MOST_RUNS, document, write_files
from fxport.exporter.checks.facts import Facts, Sample
from fxport.exporter.checks.items import Item, Task, Terms
from fxport.exporter.checks.report_formats import REPORTS, as_html, as_json, as_junit, as_markdown
from fxport.exporter.checks.rows import Row, Verdict
from fxport.exporter.checks.stages import stages_of
from fxport.exporter.cli.check.run import print_rows
from tests.node import BROWSER, HEADLESS, needs_browser

EVIL = "<img src=x onerror=alert(1)>&\"'</script>|`@you`"
RAN = [("load", 0.1), ("capture", 0.2), ("normalize", 0.1), ("lower", 0.1)]
ALL = [*RAN, ("finish", 0.1), ("save", 0.1), ("reference", 0.1), ("validate", 0.1)]


def facts(ratio: float = 0.25, modules: int = 3) -> Facts:
    return Facts(
        opset=23,
        nodes=12,
        bytes=3000,
        weights=2000,
        inputs={"x": "float32 [rows, 3]"},
        outputs={"y": "float32 [rows, 4]"},
        operators={"Gemm": 12},
        modules={"": 2, "head": 1} | {f"encoder.layer.{number}.attention": 3 for number in range(modules)},
        provider="cpu",
        samples=(Sample("sample", ratio <= 1, "y", 1e-6, ratio),),
        latency=0.003,
        eager=0.001,
    )


def row(name: str, findings: Sequence[Finding] = (), *, made: Facts | None = None, stages: Sequence = ALL) -> Row:
    task = Task(Item(name, name, f"models.py:{name}", 23, "cpu"), Terms())
    return Row(task, made, findings, stages, 1.5, False, Verdict.PASSED).judged(FailOn.ERROR)


def missing(path: Path, op: str = "aten.foo.default") -> Sequence[Finding]:
    log = Log()
    log.report(rules.NO_ONNX_LOWERING, at=Place(str(path), 3, module="net.layer.0"), op=op)
    return log.findings


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    path = tmp_path / "models.py"
    path.write_text("one = 1\ntwo = 2\nthree = '<b>'\nfour = 4\n")
    drift = Log()
    drift.report(rules.OUTPUT_DRIFT, at=Place(str(path), 1), output="y", provider="cpu", ratio=3.0, worst=0.1)
    dead = Log()
    dead.report(rules.NOT_CHECKED, name="dead", reason="its process was killed by SIGKILL")
    return [
        row("sound", made=facts()),
        row("bent", missing(path), stages=RAN),
        row("drifts", drift.findings, made=facts(3.0)),
        row("dead", dead.findings, stages=RAN[:1]),
    ]


def test_stages(rows: list[Row]) -> None:
    told = {each.id: dict(stages_of(each)) for each in rows}
    assert set(told["sound"].values()) == {"passed"}
    assert (told["bent"]["capture"], told["bent"]["lower"], told["bent"]["validate"]) == ("passed", "failed", "not run")
    assert (told["drifts"]["save"], told["drifts"]["validate"]) == ("passed", "failed")
    assert (told["dead"]["load"], told["dead"]["capture"]) == ("failed", "not run")


def test_json_is_strict_and_whole(rows: list[Row]) -> None:
    rows.append(row("endless", made=facts(float("inf"))))
    read = json.loads(as_json(rows), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert [(each["id"], each["verdict"]) for each in read["rows"]] == [
        ("sound", "passed"),
        ("bent", "failed"),
        ("drifts", "failed"),
        ("dead", "not checked"),
        ("endless", "passed"),
    ]
    assert read["rows"][0]["facts"]["inputs"] == {"x": "float32 [rows, 3]"}
    assert read["rows"][1]["findings"][0]["rule"] == "FXP3001"
    assert read["rows"][4]["facts"]["samples"][0]["ratio"] == "Infinity"


def test_junit_has_a_case_a_row(rows: list[Row]) -> None:
    rows.append(replace(rows[1], verdict=Verdict.EXPECTED))
    suite = ElementTree.fromstring(as_junit(rows))[0]
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "5", "failures": "2", "errors": "1", "skipped": "1"}
    assert [[child.tag for child in case] for case in suite] == [[], ["failure"], ["failure"], ["error"], ["skipped"]]
    assert "three = '<b>'" in (suite[1][0].text or "")


def test_markdown_has_the_table_and_the_findings(rows: list[Row]) -> None:
    text = as_markdown(rows)
    assert text.startswith("# fxport check: 1 passed, 2 failed, 1 not checked\n")
    assert "| drifts | ❌ failed | 23 | cpu | 12 | 3 kB | 3 |" in text
    assert "FXP3001" in text


def test_a_sarif_run_for_each_row_as_long_as_github_takes_them(rows: list[Row]) -> None:
    assert [run["automationDetails"]["id"] for run in document(rows)["runs"]] == [
        "fxport/sound/check",
        "fxport/bent/check",
        "fxport/drifts/check",
        "fxport/dead/check",
    ]
    (whole,) = document(rows * MOST_RUNS)["runs"]
    assert len(whole["results"]) == 3, "equal causes are one"
    assert document([])["runs"][0]["results"] == []


def test_all_reports_are_written(rows: list[Row], tmp_path: Path) -> None:
    write_files(rows, Report("", sarif=tmp_path / "one.sarif", folder=tmp_path / "out"))
    files = {RENDERERS[form].file for form in REPORTS} | {SARIF_FILE}
    assert {path.name for path in (tmp_path / "out").iterdir()} == files
    assert (tmp_path / "one.sarif").read_bytes() == (tmp_path / "out" / "report.sarif").read_bytes()


def test_faces_that_know_of_rows_are_printed(rows: list[Row], capsys: pytest.CaptureFixture[str]) -> None:
    for form in Format:
        print_rows(rows, form)
        printed = capsys.readouterr().out.rstrip("\n")
        if form in (Format.MARKDOWN, Format.JUNIT, Format.HTML):
            assert printed == REPORTS[form](rows).rstrip("\n")
        assert all(("dead" in printed, "FXP9003" in printed)), form


class Tags(HTMLParser):
    """Tags in order, with their attributes; the text of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_needs_nothing_else(rows: list[Row]) -> None:
    tags = Tags(as_html(rows)).tags
    assert not [tag for tag, _ in tags if tag in ("iframe", "object", "embed", "img", "base")]
    loads = [attributes.get("src") or attributes.get("href") or "" for tag, attributes in tags if tag != "a"]
    assert set(loads) <= {"", "data:,"}
    assert "url(" not in as_html(rows)
    assert "@import" not in as_html(rows)


def test_the_page_shows_source_tree_and_bars(rows: list[Row]) -> None:
    page = as_html(rows)
    assert re.search(r'class="hit"><i>   3 </i>three = &#39;&lt;b&gt;&#39;', page)
    assert "Nodes by module: 12" in page
    assert re.search(r"encoder <b>9</b>.*layer <b>9</b>.*\* <b>9</b>.*attention <b>9</b>", page, re.S)
    assert page.count('<svg role="img" aria-label=') == 4
    assert 'width="100.0" height="14" fill="var(--bad)"' in page


def test_names_with_html_in_them_are_only_text(tmp_path: Path) -> None:
    path = tmp_path / "models.py"
    path.write_text(f"one\ntwo\n{EVIL}\n")
    made = replace(facts(), modules={EVIL: 3}, provider=EVIL)
    page = as_html([row(EVIL, missing(path, EVIL), made=made)])
    assert "<img" not in page
    assert page.count("</script>") == 1
    assert html.escape(EVIL, quote=False).split("onerror")[0] in page
    text = as_markdown([row(EVIL, missing(path, EVIL), made=made)])
    assert "<img" not in re.sub(r"```python.*?```", "", text, flags=re.S)
    ElementTree.fromstring(as_junit([row(EVIL, missing(path, EVIL), made=made)]))


def test_ids_are_unique_and_every_link_has_its_target(rows: list[Row]) -> None:
    tags = Tags(as_html(rows)).tags
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] or "" for tag, attributes in tags if tag == "a"]
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    labelled = {attributes.get("for") for tag, attributes in tags if tag == "label"}
    assert "words" in labelled


def test_fifty_large_models_are_less_than_two_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "models.py"
    path.write_text("\n".join(f"line_{number} = {number}" for number in range(100)))
    findings = [missing(path, f"aten.op{number}.default")[0] for number in range(20)]
    rows = [row(f"model{number}", findings, made=facts(modules=500)) for number in range(50)]
    assert len(as_html(rows).encode()) < 2_000_000


ACT = """
<script>
addEventListener("load", () => {
  const name = section => section.querySelector("h2").firstChild.textContent.trim();
  const shown = () => [...document.querySelectorAll("section")].filter(section => !section.hidden).map(name);
  const said = [shown()];
  words.value = "FXP3001"; words.dispatchEvent(new Event("input")); said.push(shown());
  words.value = ""; words.dispatchEvent(new Event("input"));
  faulty.click(); said.push(shown()); faulty.click();
  const before = getComputedStyle(document.body).backgroundColor;
  theme.click(); said.push(before !== getComputedStyle(document.body).backgroundColor);
  document.querySelector("article .dim a").click(); said.push(location.hash);
  const box = document.querySelector(location.hash).getBoundingClientRect();
  said.push(box.top < innerHeight && box.bottom > 0);
  document.title = JSON.stringify(said);
});
</script>
"""


@needs_browser
def test_a_browser_shows_filters_and_jumps(rows: list[Row], tmp_path: Path) -> None:
    assert BROWSER is not None
    page = tmp_path / "report.html"
    page.write_text(as_html(rows).replace("</body>", f"{ACT}</body>"), encoding="utf-8")
    folder = f"--user-data-dir={tmp_path / 'profile'}"
    done = subprocess.run(
        [BROWSER, *HEADLESS, "--dump-dom", folder, page.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None
    everything, found, faulty, themed, hash_, seen = json.loads(html.unescape(title[1]))
    assert everything == ["sound", "bent", "drifts", "dead"]
    assert found == ["bent"]
    assert faulty == ["bent", "drifts", "dead"]
    assert themed
    assert (hash_, seen) == ("#m2f1", True)
    assert "CONSOLE" not in done.stderr, done.stderr
