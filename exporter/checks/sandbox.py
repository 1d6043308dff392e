"""A command line in a process that has no network and can write nothing but its outputs, by bubblewrap.

All of the machine's files can be read there, and none can be written but those of an empty folder for each output.
When the process has ended, the files that were asked for are taken from there; whatever else it has put beside them is
left out.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from fxport.diagnostics.folders import written_folder
from fxport.diagnostics.paths import written_whole
from fxport.exporter.onnx_program.in_place import COMPANIONS, Companion, put_in_place, save_of, saving
from fxport.exporter.sources.usage import UsageError
from fxport.ort_runner.child import environment

PROGRAM = "bwrap"
WALLS = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"),  # /run: sockets of daemons
    *("--unshare-all", "--die-with-parent", "--new-session"),
)
TEXTS = frozenset((".sarif", ".html", ".json", ".xml", ".md", ".txt"))
"""Endings of outputs that name files: they are to name them where they will be."""

_BESIDE = re.compile(rf"(\.evaluate\.onnx)?\.[0-9a-f]{{16}}\.data|{'|'.join(map(re.escape, COMPANIONS))}")


@dataclass(frozen=True, slots=True)
class Output:
    """A file or folder that was asked for, and the place where the process writes it.

    A folder that `is_whole` takes the place of an earlier one; to another one, its files are added.
    """

    target: Path
    draft: Path
    is_folder: bool
    is_whole: bool = False


def run_sandboxed(args: Sequence[str], outputs: Sequence[Output]) -> int | None:
    """Run a command line of fxport in a sandbox, print what it prints, and put its outputs in their places.

    Args:
        args: The command line, with the drafts of `outputs` for their targets.
        outputs: The files and folders that it may write.

    Returns:
        Its exit code; None if a signal ended it.

    Raises:
        UsageError: bubblewrap is not installed or does not work here.
    """
    walls = [_program(), *WALLS]
    with tempfile.TemporaryDirectory(prefix="fxport-") as scratch:
        for folder in (scratch, *(str(each.draft.parent) for each in outputs)):
            walls += ["--bind", folder, folder]
        for device in Path("/dev").glob("nvidia*"):
            walls += ["--dev-bind-try", str(device), str(device)]
        within = {**environment(), "TMPDIR": scratch, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [*walls, "--chdir", str(Path.cwd()), sys.executable, "-P", "-m", "fxport", *args]
        marks = [f"/{each.draft.parent.name}" for each in outputs]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=within, text=True, errors="replace") as process:
            assert process.stdout is not None
            for line in process.stdout:
                sys.stdout.write(_unmarked(line, marks))
                sys.stdout.flush()
        for output in outputs:
            _take(output, marks)
    return process.returncode if process.returncode >= 0 else None


def _program() -> str:
    """The path of bubblewrap. Raises UsageError where it is not installed or does not work."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise UsageError(
            f"A sandbox needs bubblewrap (Linux), and there is no {PROGRAM} here; install it, or use a container."
        )
    tried = subprocess.run([program, *WALLS, sys.executable, "-c", ""], capture_output=True, text=True, check=False)
    if tried.returncode:
        why = (tried.stderr.strip().splitlines() or ["no reason"])[-1]
        raise UsageError(f"bubblewrap does not work here: {why}; run fxport in a container.")
    return program


def _take(output: Output, marks: Sequence[str]) -> None:
    """Put what the process has written in its place. Links are left out, and files that have other names."""
    if output.is_folder:
        if not output.draft.is_dir() or not _is_plain(output.draft):
            return
        with written_folder(output.target) if output.is_whole else nullcontext(output.target) as folder:
            for path in sorted(output.draft.rglob("*")):
                target = folder / path.relative_to(output.draft)
                if path.is_file() and not any(each.is_symlink() for each in (path, *path.parents)):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    _unmark(path, marks)
                    with written_whole(target) as draft:
                        shutil.copyfile(path, draft)
    elif output.draft.is_file() and _is_plain(output.draft):
        _unmark(output.draft, marks)
        beside = [each for each in output.draft.parent.iterdir() if _is_beside(each, output.draft)]
        number = save_of(output.draft)
        with saving(output.target) as folder:
            moved = [each.rename(folder / each.name) for each in beside]
            model = folder / output.draft.name
            output.draft.rename(model)
            data = [each for each in moved if each.name.endswith(".data")]
            others = [each for each in moved if each not in data]
            companions = [] if number is None else [Companion(each, each.name, number) for each in others]
            put_in_place(output.target, model, data, companions)


def _is_beside(path: Path, draft: Path) -> bool:
    """Return True for a file of weights, or of a state, that fxport writes beside a model."""
    begun = next((each for each in (draft.name, draft.stem) if path.name.startswith(each)), None)
    return begun is not None and _is_plain(path) and bool(_BESIDE.fullmatch(path.name[len(begun) :]))


def _is_plain(path: Path) -> bool:
    return not path.is_symlink()


def _unmark(path: Path, marks: Sequence[str]) -> None:
    if path.suffix in TEXTS:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        path.write_text(_unmarked(text, marks), encoding="utf-8", errors="surrogateescape")


def _unmarked(text: str, marks: Sequence[str]) -> str:
    for mark in marks:
        text = text.replace(mark, "")
    return text
