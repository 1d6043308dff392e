"""sarif-tools on our log: it reads it, counts it, and sees what is new. Skipped where it is not installed.

`pip install sarif-tools` puts the command `sarif` beside Python.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fxport.diagnostics import Log, rules
from fxport.diagnostics.sarif import write_sarif

TOOL = shutil.which("sarif") or shutil.which("sarif", path=str(Path(sys.executable).parent))
pytestmark = pytest.mark.skipif(TOOL is None, reason="sarif-tools is not installed")


def run(*arguments: str) -> tuple[int, str]:
    done = subprocess.run([str(TOOL), *arguments], capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_the_summary_has_our_rules_and_their_counts(log: Log, tmp_path: Path) -> None:
    code, said = run("summary", str(write_sarif(log, tmp_path / "log.sarif")))
    assert code == 0
    assert "error: 2" in said
    assert "FXP3001 No ONNX lowering for 'mylib.other.default'" in said


def test_the_same_log_has_nothing_new_and_another_has(log: Log, tmp_path: Path) -> None:
    old = str(write_sarif(log, tmp_path / "old.sarif"))
    assert run("--check", "error", "diff", old, old)[0] == 0
    log.report(rules.CAPTURE_FAILED, error="no")
    new = str(write_sarif(log, tmp_path / "new.sarif"))
    code, said = run("--check", "error", "diff", old, new)
    assert code != 0
    assert "FXP1001" in said


def test_a_table_names_every_finding(log: Log, tmp_path: Path) -> None:
    code, _ = run("csv", str(write_sarif(log, tmp_path / "log.sarif")), "-o", str(tmp_path / "log.csv"))
    assert code == 0
    rows = (tmp_path / "log.csv").read_text(encoding="utf-8")
    assert all(finding.rule.id in rows for finding in log.findings)
    assert "my model.py" in rows.replace("%20", " ")
