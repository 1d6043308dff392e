"""The example that trains: a run that is killed goes on with the same numbers, and learns as PyTorch does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def started(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.cases.drawn_digits", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def finished(*arguments: str) -> list[str]:
    process = started(*arguments)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return said.splitlines()


@pytest.mark.timeout(600)
def test_a_killed_run_goes_on_with_the_same_numbers(tmp_path: Path) -> None:
    whole = finished("--run", str(tmp_path / "whole"), "--epochs", "2", "--beside")
    assert [line.split(":")[0] for line in whole] == [f"epoch {number}" for number in range(1, 3)]
    for line in whole:
        ours, eager = (float(text) for text in re.findall(r"([\d.]+)%", line))
        assert abs(ours - eager) <= 1  # a few pictures that lie on the border
    process = started("--run", str(tmp_path / "killed"), "--epochs", "400")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("epoch 1")
    process.kill()
    process.communicate()
    assert process.returncode < 0
    rest = finished("--run", str(tmp_path / "killed"), "--epochs", "2")
    assert rest[-1] == re.sub(r" \([\d.]+% in PyTorch\)", "", whole[-1])
