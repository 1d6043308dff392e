"""Kill processes that save and let them race: a model on disk is the old one or the new one, and nothing is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exporter.saves import KINDS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
ROOT = Path(__file__).parents[2]


def told(what: str, kind: str, folder: Path, rounds: int) -> dict[str, object]:
    command = [sys.executable, "-m", "tests.exporter.saves", what, kind, str(folder), str(rounds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(what: str, kind: str, folder: Path, rounds: int) -> None:
    found = told(what, kind, folder, rounds)
    assert found["rounds"] == rounds
    assert found["wrong"] == []
    assert found["left"] == []


@pytest.mark.parametrize("kind", ["external", "mixed", "package"])
def test_some_kills(kind: str, tmp_path: Path) -> None:
    check("kills", kind, tmp_path, 12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_kills(kind: str, tmp_path: Path) -> None:
    check("kills", kind, tmp_path, 200)


def test_some_races(tmp_path: Path) -> None:
    check("races", "external", tmp_path, 6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_races(kind: str, tmp_path: Path) -> None:
    check("races", kind, tmp_path, 200)
