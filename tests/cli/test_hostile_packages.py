"""Packages of strangers that are run: what never ends is stopped, and what takes memory without measure is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.packages import BODIES, generating, scoring

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a process has limits on Linux only")
SHORT, LONG = 1.0, 300.0  # seconds that a model may take
GENERATE = ("generate", "folder", "--ids", "1,2", "--max-new-tokens", "3")
EMBED = ("embed", "folder", "a", "--query", "b")
RUN = """
import sys
import fxport.ort_runner.child as child
from fxport.exporter.cli import main
child.LEAST_TIME_LIMIT = float(sys.argv.pop(1))
sys.exit(main())
"""
ENDLESS, GREEDY = BODIES
ROWS = (
    *((GENERATE, generating, ENDLESS, SHORT, "it did not answer within 1 seconds and was stopped"),),
    *((EMBED, scoring, GREEDY, LONG, "Failed to allocate memory"),),
)


def run(command: tuple[str, ...], folder: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    """The command as a user runs it, where a model may take so many seconds."""
    called = [sys.executable, "-c", RUN, str(seconds), *command]
    return subprocess.run(called, cwd=folder, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.parametrize(("command", "make", "body", "seconds", "said"), ROWS, ids=[row[2] for row in ROWS])
def test_a_package_of_a_stranger_is_bounded(
    command: tuple[str, ...], make: object, body: str, seconds: float, said: str, tmp_path: Path
) -> None:
    assert callable(make)
    make(BODIES[body])(tmp_path)
    done = run(command, tmp_path, seconds)
    assert done.returncode == 1, done.stderr
    assert "FXP6003" in done.stdout
    assert said in done.stdout


def test_the_same_package_runs_without_it(tmp_path: Path) -> None:
    generating("last = Identity(start)")(tmp_path)
    done = run(GENERATE, tmp_path, LONG)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2,2,2\n")
