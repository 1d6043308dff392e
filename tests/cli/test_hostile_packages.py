"""Packages of strangers that are run: what never ends is stopped, and what takes memory without measure is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.packages import BODIES, generating, scoring

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a process has limits on Linux only")
SECONDS = 1.0
GENERATE = ("generate", "folder", "--ids", "1,2", "--max-new-tokens", "3")
EMBED = ("embed", "folder", "a", "--query", "b")
RUN = f"""
import sys
import fxport.ort_runner.child as child
from fxport.exporter.cli import main
child.LEAST_TIME_LIMIT = {SECONDS}
sys.exit(main())
"""
ENDLESS, GREEDY = BODIES
ROWS = (
    *((GENERATE, generating, ENDLESS, "it did not answer within 1 seconds and was stopped"),),
    *((EMBED, scoring, GREEDY, "Failed to allocate memory"),),
)


def run(command: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess[str]:
    """The command as a user runs it, where a model may take one second."""
    return subprocess.run(
        [sys.executable, "-c", RUN, *command], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(("command", "make", "body", "said"), ROWS, ids=[row[2] for row in ROWS])
def test_a_package_of_a_stranger_is_bounded(
    command: tuple[str, ...], make: object, body: str, said: str, tmp_path: Path
) -> None:
    assert callable(make)
    make(BODIES[body])(tmp_path)
    done = run(command, tmp_path)
    assert done.returncode == 1, done.stderr
    assert "FXP6003" in done.stdout
    assert said in done.stdout


def test_the_same_package_runs_without_it(tmp_path: Path) -> None:
    generating("last = Identity(start)")(tmp_path)
    done = run(GENERATE, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2,2,2\n")
