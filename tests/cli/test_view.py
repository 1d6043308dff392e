"""`fxport view`: the page of a folder or of a SARIF log, and the browser that opens it."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest

from fxport.diagnostics import Log, Place, rules, sarif
from fxport.exporter.cli import main

Output = pytest.CaptureFixture[str]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The addresses that a browser was asked to open; the current folder is empty but for a log."""
    addresses: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: addresses.append(address) is None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text("one\ntwo()\n")
    log = Log()
    log.report(rules.NO_ONNX_LOWERING, at=Place(str(tmp_path / "m.py"), 2), op="aten.foo.default")
    sarif.write_sarif(log, tmp_path / "log.sarif")
    return addresses


def test_a_log_becomes_a_page(opened: list[str], capsys: Output) -> None:
    assert main(["view", "log.sarif"]) == 0
    page = Path(capsys.readouterr().out.strip())
    assert opened == [page.as_uri()]
    text = page.read_text(encoding="utf-8")
    assert all(part in text for part in ("1 error", "aten.foo.default", "two()", "m.py:2"))
    assert main(["view", "log.sarif", "-o", "page.html", "--no-browser"]) == 0
    assert Path("page.html").read_text(encoding="utf-8") == text
    assert len(opened) == 1


def test_the_folder_of_a_report(opened: list[str], tmp_path: Path) -> None:
    folder = tmp_path / ".fxport" / "report"
    folder.mkdir(parents=True)
    assert main(["view"]) == 2
    (folder / "report.html").write_text("page")
    assert main(["view"]) == 0
    assert opened == [(folder / "report.html").as_uri()]


def test_what_is_no_log(opened: list[str], capsys: Output, tmp_path: Path) -> None:
    (tmp_path / "other.sarif").write_text("{}")
    for path, said in (("other.sarif", "name a log that fxport wrote"), ("nothing.sarif", "There is no file")):
        assert main(["view", path]) == 2
        assert said in capsys.readouterr().err
    assert opened == []


def test_a_machine_without_a_browser(opened: list[str], capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    assert main(["view", "log.sarif"]) == 0
    said = capsys.readouterr()
    assert Path(said.out.strip()).is_file()
    assert "there is no browser here; open '" in said.err
