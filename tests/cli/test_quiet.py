"""`--quiet` and `--verbose`: how much a run says, of its own and of libraries."""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from fxport.diagnostics import Finding, Level, Log, Place, rules
from fxport.diagnostics.formats import Format
from fxport.diagnostics.report import Report
from fxport.exporter.checks.items import Item, Task, Terms
from fxport.exporter.checks.rows import Row, Verdict
from fxport.exporter.cli import main
from fxport.exporter.cli.check.progress import Progress
from fxport.exporter.cli.check.run import print_rows
from fxport.exporter.cli.edge import run

Output = pytest.CaptureFixture[str]


def says_much(log: Log) -> str:
    """A run that finds a note, during which a library and the user's code warn."""
    log.report(rules.STATE_MUTATED, name="x", output="x.updated")
    logging.getLogger("some_library").warning("of a library, logged")
    warnings.showwarning("of a library, raised", UserWarning, warnings.__file__, 1)
    warnings.showwarning("of the user", UserWarning, __file__, 1)
    return "the summary"


def test_libraries_are_silent_unless_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_: said.append(str(message)))
    assert run(says_much, Report("models.py:Adder")) == 0
    assert said == ["of the user"]
    assert logging.root.manager.disable == logging.NOTSET
    said.clear()
    assert run(says_much, Report("models.py:Adder", verbose=True)) == 0
    assert {"of a library, raised", "of the user"} <= {*said}


def test_quiet_prints_problems_only(folder: Path, capsys: Output) -> None:
    call = ["export", "models.py:Adder", "--input", "x=2x3", "--input", "scale=2.0", "--no-validate"]
    assert main(call) == 0
    assert "note[FXP1006]" in capsys.readouterr().out
    assert main([*call, "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def row(name: str, *findings: Finding) -> Row:
    task = Task(Item(id=name, model=name, source="net.py:Net", opset=None, provider="cpu"), Terms())
    return Row(task, None, findings, (), 0.1, False, Verdict.FAILED)


def test_check_names_the_models_of_a_finding_and_is_quiet_if_asked(capsys: Output) -> None:
    at = Place("net.py", 3, module="encoder")
    error = Finding(rules.CAPTURE_FAILED, Level.ERROR, "It failed.", at, identity="one")
    note = Finding(rules.STATE_MUTATED, Level.NOTE, "It is a note.", replace(at, module=None), identity="two")
    rows = [row("small", error, note), row("large", error), row("other", note)]
    print_rows(rows, Format.TEXT)
    said = capsys.readouterr().out
    assert "in: small, large (encoder, and 1 more place)" in said
    assert "in: small, other\n" in said
    assert "verdict" in said
    print_rows(rows, Format.TEXT, quiet=True)
    said = capsys.readouterr().out
    assert "It failed." in said
    assert "note" not in said
    assert "verdict" not in said
    with Progress(1, quiet=True) as progress:
        progress.done(rows[0])
    assert capsys.readouterr().err == ""
