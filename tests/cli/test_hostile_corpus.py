"""The corpus of hostile inputs: nothing outside is read, nothing in it is run, and each is refused with a sentence.

Each within 60 s and 2 GB. Usually every twenty-fourth of them is run, `--slow` runs all.
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
STEP = 24
SLOW = (
    *("model, endless loop", "model, endless loop, bench", "model, 2^27 calls"),
    *("package, model that never ends", "embedding, model that never ends"),
)
"""Cases that take as long as a model may."""
NAMES = [case.name for case in all_cases()]
WHOLE_RUNS = "model, output "
"""Cases in which a model is validated to its end; test_hostile_models.py has one in each format of a report."""
SAMPLE = [name for name in [name for name in NAMES if name not in SLOW][::STEP] if not name.startswith(WHOLE_RUNS)]
OPENED = re.compile(r'open(?:at)?\((?:[^,"]*, )?"([^"]+)", [^)]*\) = \d+')
OF_THE_SYSTEM = ("/etc/passwd", "/proc/self/environ")
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


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all(tmp_path: Path) -> None:
    check(run(tmp_path, []), NAMES)


WHOLE = pytest.param("all", marks=[pytest.mark.slow, pytest.mark.timeout(3600)])


def opened_outside(lines: list[str], cases: str) -> list[str]:
    """Return what was read of the folder beside a project and of the system, with the process that did.

    A new Python reads the latter itself while it imports PyTorch: that is before it opens anything of a case.
    """
    found, importing = [], set()
    for line in lines:
        process = line.split(" ", 1)[0]
        if EXECUTED.search(line):
            importing.add(process)
        match = OPENED.search(line)
        if match is None or "O_WRONLY" in line:
            continue
        if match[1].startswith(cases):
            importing.discard(process)
        if "/outside/" in match[1] or (match[1] in OF_THE_SYSTEM and process not in importing):
            found.append(f"{process} {match[1]}")
    return found


def test_what_is_opened_is_told_from_what_an_import_opens() -> None:
    """A process may read the system's files before it knows of a case, and never after."""
    start, case = (
        '7 execve("/bin/python", ["python"], 0x0 /* 44 vars */) = 0',
        '7 openat(AT_FDCWD, "/c/x", O_RDONLY) = 3',
    )
    system, beside = (case.replace("/c/x", path) for path in ("/etc/passwd", "/c/outside/y"))
    assert opened_outside([start, system, case], "/c") == []
    assert opened_outside([start, case, system], "/c") == ["7 /etc/passwd"]
    assert opened_outside([system], "/c") == ["7 /etc/passwd"]
    assert opened_outside([start, beside], "/c") == ["7 /c/outside/y"]


@pytest.mark.parametrize("part", ["sample", WHOLE])
def test_no_file_outside_is_opened_and_no_program_started(part: str, tmp_path: Path) -> None:
    """Each is refused; by the system calls of all processes nothing beside the project or of the system is opened."""
    strace = shutil.which("strace")
    is_traced = strace and not subprocess.run([strace, "-f", "-o", "/dev/null", "true"], check=False).returncode
    if not is_traced:
        if part == "sample":
            check(run(tmp_path, SAMPLE), SAMPLE)
        pytest.skip("strace is not installed, or may not trace here")
    names = SAMPLE if part == "sample" else [name for name in NAMES if name not in SLOW]
    trace = tmp_path / "trace.txt"
    calls = "trace=open,openat,execve"
    tracing = (str(strace), "-f", "--seccomp-bpf", "-qq", "-e", calls, "-s", "4096", "-o", str(trace))
    check(run(tmp_path / "cases", names, *tracing), names)
    lines = trace.read_text(errors="replace").splitlines()
    marks = [number for number, line in enumerate(lines) if "net.py" in line and "O_RDONLY" in line]
    assert marks, "the trace has no source of a project"
    assert opened_outside(lines[marks[0] :], str(tmp_path / "cases")) == []
    started = {Path(match[1]).name for line in lines[marks[0] :] if (match := EXECUTED.search(line))}
    assert {name for name in started if not name.startswith("python")} == set()
