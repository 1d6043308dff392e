"""The corpus of hostile inputs: nothing outside is read, nothing in it is run, and each is refused with a sentence.

Each within 60 s and 2 GB. Usually every twelfth of them is run, `--slow` runs all.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.run import all_cases

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="runs are forks, and memory is read from /proc")
ROOT = Path(__file__).parents[2]
STEP = 12
SLOW = (
    *("model, endless loop", "model, endless loop, bench", "model, 2^27 calls"),
    *("package, model that never ends", "embedding, model that never ends"),
)
"""Cases that take as long as a model may."""
NAMES = [case.name for case in all_cases()]
SAMPLE = [name for name in NAMES if name not in SLOW][::STEP]
OPENED = re.compile(r'open(?:at)?\((?:[^,"]*, )?"([^"]+)", [^)]*\) = \d+')
EXECUTED = re.compile(r'execve\("([^"]+)", .*\) = 0')


def run(folder: Path, names: list[str], *before: str) -> list[dict[str, object]]:
    command = [*before, sys.executable, "-m", "tests.hostile.run", str(folder), *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(outcomes: list[dict[str, object]], names: list[str]) -> None:
    assert [each["name"] for each in outcomes] == names
    assert [each for each in outcomes if each["wrong"]] == []


def test_the_corpus_is_large() -> None:
    assert len(NAMES) >= 120
    for kind in ("model", "safetensors", "pt", "pt2", "npz", "toml", "lock", "sarif", "transformers"):
        assert sum(name.startswith(f"{kind},") for name in NAMES) >= 9, kind


def test_a_sample(tmp_path: Path) -> None:
    check(run(tmp_path, SAMPLE), SAMPLE)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all(tmp_path: Path) -> None:
    check(run(tmp_path, []), NAMES)


WHOLE = pytest.param("all", marks=[pytest.mark.slow, pytest.mark.timeout(3600)])


@pytest.mark.parametrize("part", ["sample", WHOLE])
def test_no_file_outside_is_opened_and_no_program_started(part: str, tmp_path: Path) -> None:
    """By the system calls of all processes: of the folder beside the project, and of /etc/passwd, none is opened."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    if subprocess.run([strace, "-f", "-o", "/dev/null", "true"], check=False).returncode:
        pytest.skip("strace may not trace here")
    names = SAMPLE[::2] if part == "sample" else [name for name in NAMES if name not in SLOW]
    trace = tmp_path / "trace.txt"
    tracing = (strace, "-f", "--seccomp-bpf", "-qq", "-e", "trace=open,openat,execve", "-s", "4096", "-o", str(trace))
    run(tmp_path / "cases", names, *tracing)
    lines = trace.read_text(errors="replace").splitlines()
    marks = [number for number, line in enumerate(lines) if "net.py" in line and "O_RDONLY" in line]
    assert marks, "the trace has no source of a project"
    opened = [match[1] for line in lines[marks[0] :] if (match := OPENED.search(line)) and "O_WRONLY" not in line]
    assert [path for path in opened if "/outside/" in path or path in ("/etc/passwd", "/proc/self/environ")] == []
    started = {Path(match[1]).name for line in lines[marks[0] :] if (match := EXECUTED.search(line))}
    assert {name for name in started if not name.startswith("python")} == set()
