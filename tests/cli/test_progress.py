"""Progress: on a terminal the stages as they pass, in a pipe nothing."""

import io
import sys

import pytest

from fxport.diagnostics import Log
from fxport.exporter.cli.progress import progress_of


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run_stages(log: Log) -> None:
    with progress_of(log):
        for stage in ("capture", "lower"):
            with log.stage(stage):
                log.advance(3, 10)


def test_stages_are_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    log = Log()
    run_stages(log)
    assert "capture" in terminal.getvalue()
    assert "lower" in terminal.getvalue()
    assert log.progress is None


def test_a_pipe_stays_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    run_stages(Log())
    assert capsys.readouterr() == ("", "")
