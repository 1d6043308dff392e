"""Make the cases, run fxport on each in a process of its own, and judge what it did.

The runs are forks of a process that has imported all that a command needs: a start of PyTorch takes longer than most.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.hostile import encoded, media, models, packages, places, tensors, texts
from tests.hostile.cases import RAN, SECRET, Case

SECONDS, MEMORY = 60.0, 2_000_000_000
SOURCE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((2, 3), 2.0))

    def forward(self, x):
        return x * self.weight

def net():
    return Net().eval(), (torch.arange(6.0).reshape(2, 3),)
"""
TOLD, STATUS = "told.txt", "status.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: seconds and bytes that it took, and what is wrong with it, in words."""

    name: str
    code: int | None
    seconds: float
    memory: int
    wrong: Sequence[str]
    told: str


def all_cases() -> list[Case]:
    """Every case; names are unique."""
    found = [case for kind in (models, tensors, texts, packages, media, places, encoded) for case in kind.cases()]
    assert len({case.name for case in found}) == len(found)
    return found


def project_of(case: Case, folder: Path) -> Path:
    """Make the files of a case in a project of its own, beside a folder with secrets."""
    home = folder / f"{abs(hash(case.name)):x}"
    project, outside = home / "project", home / "outside"
    for each in (project, outside):
        each.mkdir(parents=True)
    for name in ("secret.py", "secret.data", "secret.safetensors", "secret.onnx", "config.json"):
        (outside / name).write_text(f"{SECRET} = '{SECRET}'\n")
    (project / "net.py").write_text(SOURCE)
    case.make(project)
    return project


def warm() -> None:
    """Import what commands import on use. Starts no threads, which a fork would lose."""
    import torch

    torch.set_num_threads(1)
    import onnxruntime  # noqa: F401

    from fxport.exporter.checks import worker

    worker.warm()


def outcome_of(case: Case, project: Path) -> Outcome:
    """Run one case in a fork, and judge it."""
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _in_fork(case, project)
    code = None
    while time.monotonic() < start + SECONDS + 5:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            break
        time.sleep(0.02)
    else:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    seconds = time.monotonic() - start
    status_file, told_file = project.parent / STATUS, project.parent / TOLD
    memory = json.loads(status_file.read_text()) if status_file.exists() else 0
    told = told_file.read_text(errors="replace")
    return Outcome(case.name, code, seconds, memory, list(wrong_with(case, project, code, seconds, memory, told)), told)


def wrong_with(case: Case, project: Path, code: int | None, seconds: float, memory: int, told: str) -> Iterator[str]:
    """Yield what is not as it should be."""
    if code not in case.codes:
        yield f"exit code {code}"
    if not told.strip() and code != 0:
        yield "no sentence"
    if "itself failed" in told or "FXP9001" in told or "Traceback" in told:
        yield "a fault of fxport's"
    if seconds > SECONDS:
        yield f"{seconds:.0f} s"
    if memory > MEMORY:
        yield f"{memory / 1e9:.1f} GB"
    if list(project.parent.rglob(RAN)):
        yield "its code was run"
    files = (path for path in project.rglob("*") if path.is_file() and not path.is_symlink())
    made = [path for path in files if path.suffix in {".html", ".sarif", ".json", ".xml"}]
    if any(
        SECRET in text
        for text in (told, *(path.read_text(errors="replace") for path in made if path.stat().st_size < 1 << 24))
    ):
        yield "another folder's secret is shown"
    if any(
        line.lstrip().startswith("::error") and "forged" in line.partition("::error")[0] for line in told.splitlines()
    ):
        yield "a forged command"


def _in_fork(case: Case, project: Path) -> None:
    code = 99
    try:
        os.setpgid(0, 0)
        os.chdir(project)
        told = os.open(project.parent / TOLD, os.O_WRONLY | os.O_CREAT)
        for descriptor in (1, 2):
            os.dup2(told, descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        from fxport.exporter.checks.supervised import supervised
        from fxport.exporter.cli import run_here, tell_death

        try:
            code = supervised(case.command, lambda: run_here(case.command), tell_death)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
        most = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        (project.parent / STATUS).write_text(json.dumps(most * 1024))
    finally:
        os._exit(code)


def run(names: Sequence[str], folder: Path) -> Iterator[Outcome]:
    """Run the cases of these names, or all."""
    chosen = [case for case in all_cases() if not names or case.name in names]
    warm()
    for case in chosen:
        project = project_of(case, folder)
        yield outcome_of(case, project)
        shutil.rmtree(project.parent, ignore_errors=True)


def main(arguments: Sequence[str]) -> None:
    """`python -m tests.hostile.run FOLDER [--part i/n] [NAME…]`: print an outcome a line, as JSON."""
    folder, *names = arguments
    for outcome in run(names, Path(folder)):
        sys.stdout.write(json.dumps(asdict(outcome)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
