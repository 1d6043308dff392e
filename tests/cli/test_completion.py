"""Completions that the shell is offered: subcommands, and the options of one."""

from __future__ import annotations

import pytest

from fxport.exporter.cli import main


@pytest.mark.parametrize(
    ("line", "offered"),
    [("fxport ex", {"export", "explain"}), ("fxport export --sar", {"--sarif", "--sarif-profile"})],
)
def test_bash_completes(
    line: str, offered: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_FXPORT_COMPLETE", "complete_bash")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    main([])
    assert set(capsys.readouterr().out.split()) == offered
