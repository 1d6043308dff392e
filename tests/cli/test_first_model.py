"""docs/first-model.md: its commands say what the page says that they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fxport.exporter.cli import main
from fxport.exporter.validation import against_eager

PAGE = (Path(__file__).parents[2] / "docs" / "first-model.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SOURCE, MENDED, USE = (text for kind, text in BLOCKS if kind == "python")
FAILED, EXPORTED, SHOWN, CHECKED = (text for kind, text in BLOCKS if kind == "text")
FIGURES = re.compile(r"\([\d.]+ kB\)|(?<=PyTorch on )\w+|worst error .*|\w+: \d+% of the allowed error|[\d.]+ s: .*")
"""Parts of a text that differ from run to run, from folder to folder, or with a GPU."""


@pytest.fixture
def tagger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """tagger.py of the page, in an empty folder; the further sizes may take as long as they need."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(against_eager, "GIVEN", 600.0)
    file = tmp_path / "tagger.py"
    file.write_text(SOURCE, encoding="utf-8")
    return file


def mend(file: Path) -> None:
    """Puts the lines of the second block in the place of those that begin alike."""
    text = file.read_text(encoding="utf-8")
    first, last = MENDED.rstrip("\n").split("\n")
    text = re.sub(r"^        scores = .*$", first, text, flags=re.MULTILINE)
    file.write_text(re.sub(r"^        return scores.*$", last, text, flags=re.MULTILINE), encoding="utf-8")


def said(block: str, capsys: pytest.CaptureFixture[str], code: int) -> tuple[str, str]:
    """What the first command of a block prints, and what the page has for it."""
    command, _, want = block.partition("\n")
    assert main(shlex.split(command.removeprefix("$ fxport "))) == code
    return capsys.readouterr().out, want


def test_the_line_of_one_size_is_told_and_nothing_is_written(tagger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got, want = said(FAILED, capsys, 1)
    assert got.startswith(want)
    assert "Dimension 'time'" in got  # the other one, in the same run
    assert not tagger.with_suffix(".onnx").exists()


def test_the_mended_model_is_exported_shown_and_run(tagger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mend(tagger)
    got, want = said(EXPORTED, capsys, 0)
    assert FIGURES.sub("", got) == FIGURES.sub("", want)
    said(SHOWN, capsys, 0)
    assert Path(".sarif", "fxport.sarif").exists()
    exec(compile(USE, "use", "exec"), {})


def test_the_project_is_checked_and_kept(tagger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mend(tagger)
    init, check, update = (f"$ {each}" for each in CHECKED.split("$ ")[1:])
    assert said(init, capsys, 0) == (init.partition("\n")[2],) * 2
    got, want = said(check, capsys, 0)
    head, row, total = (line.split() for line in want.splitlines())
    assert [line.split()[:3] for line in got.splitlines()] == [head[:3], row[:3], total[:3]]
    said(update, capsys, 0)
    assert tagger.with_name("fxport.lock").exists()
