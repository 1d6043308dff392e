"""`--quiet` and `--verbose`: how much a run says, of its own and of libraries."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import pytest

from fxport.diagnostics import Log, rules
from fxport.diagnostics.report import Report
from fxport.exporter.cli import main
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
    assert capsys.readouterr().out.strip() in ("", "1 note")
