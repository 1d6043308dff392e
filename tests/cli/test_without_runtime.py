"""Subcommands where ONNX Runtime is not installed."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from fxport.exporter.checks import worker
from fxport.exporter.cli import main

RUNNING = {
    "bench": ("model.onnx", "--against", "models.py:adder"),
    "place": ("model.onnx",),
    "generate": ("package", "--ids", "1"),
    "embed": ("package", "text"),
    "package": ("folder", "-o", "written"),
}


@pytest.mark.parametrize("command", RUNNING)
def test_what_runs_models_says_that_it_is_missing(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "model.onnx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert main([command, *RUNNING[command]]) == 2
    assert "which is not installed: pip install onnxruntime." in capsys.readouterr().err


def test_a_worker_of_checks_starts_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("freeze", "disable", "enable", "collect"):
        monkeypatch.setattr(gc, name, lambda: None)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    worker.warm()
