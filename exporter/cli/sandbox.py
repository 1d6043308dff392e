"""`--sandbox`: a command line in a process that has no network and can write nothing but its outputs, by bubblewrap.

All of the machine's files can be read there, and none can be written but those of an empty folder for each output.
When the process has ended, the files that were asked for are taken from there; whatever else SOURCE has put beside
them is left out.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

from fxport.diagnostics.drafts import draft_folder, put, sync_file
from fxport.diagnostics.folders import written_folder
from fxport.diagnostics.paths import written_whole
from fxport.exporter.cli.exit_codes import USAGE
from fxport.exporter.onnx_program.in_place import put_in_place, saving
from fxport.exporter.sources.usage import UsageError
from fxport.ort_runner.child import environment

OPTION, PROGRAM = "--sandbox", "bwrap"
COMMANDS = frozenset(("export", "train-step", "package", "validate", "bisect", "bench"))
MAKES_FILES = frozenset(("export", "train-step", "package"))
FILES, FOLDERS = ("-o", "--output", "--sarif", "--profile"), ("--report", "--dump", "--repro")
"""Options that name a file to write, and a folder; `-o` of `package` is a folder."""

WALLS = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"),  # /run: sockets of daemons
    *("--unshare-all", "--die-with-parent", "--new-session"),
)
TEXTS = frozenset((".sarif", ".html", ".json", ".xml", ".md", ".txt"))
"""Endings of outputs that name files: they are to name them where they will be."""

_BESIDE = re.compile(r"\.[0-9a-f]{16}\.data|\.state\.safetensors")


@dataclass(frozen=True, slots=True)
class Output:
    """A file or folder that was asked for, and the place where the process writes it.

    A folder that `is_whole` takes the place of an earlier one; to another one, its files are added.
    """

    target: Path
    draft: Path
    is_folder: bool
    is_whole: bool = False


def sandboxed(args: Sequence[str]) -> int:
    """Run a command line in a sandbox and return its exit code. Raises UsageError where there can be none."""
    rest = [each for each in args if each != OPTION]
    if not rest or rest[0] not in COMMANDS:
        raise UsageError(f"{OPTION} is for {', '.join(sorted(COMMANDS))}.")
    if "--fix" in rest:
        raise UsageError(f"--fix changes SOURCE, which {OPTION} forbids; leave one of them out.")
    walls = [_program(), *WALLS]
    with ExitStack() as stack:
        outputs: list[Output] = []
        told = list(_with_drafts(rest, stack, outputs)) if "--help" not in rest else rest
        if rest[0] in MAKES_FILES and "--help" not in rest and not any(each in ("-o", "--output") for each in rest):
            raise UsageError(f"{OPTION} needs -o PATH: nothing but what it names is written.")
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="fxport-"))
        for folder in (scratch, *(str(each.draft.parent) for each in outputs)):
            walls += ["--bind", folder, folder]
        for device in Path("/dev").glob("nvidia*"):
            walls += ["--dev-bind-try", str(device), str(device)]
        within = {**environment(), "TMPDIR": scratch, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [*walls, "--chdir", str(Path.cwd()), sys.executable, "-P", "-m", "fxport", *told]
        marks = [f"/{each.draft.parent.name}" for each in outputs]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=within, text=True, errors="replace") as process:
            assert process.stdout is not None
            for line in process.stdout:
                sys.stdout.write(_unmarked(line, marks))
                sys.stdout.flush()
        for output in outputs:
            _take(output, marks)
    return process.returncode if process.returncode >= 0 else USAGE


def _program() -> str:
    """The path of bubblewrap. Raises UsageError where it is not installed or does not work."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise UsageError(
            f"{OPTION} needs bubblewrap (Linux), and there is no {PROGRAM} here; install it, or use a container."
        )
    tried = subprocess.run([program, *WALLS, sys.executable, "-c", ""], capture_output=True, text=True, check=False)
    if tried.returncode:
        why = (tried.stderr.strip().splitlines() or ["no reason"])[-1]
        raise UsageError(f"{OPTION}: bubblewrap does not work here: {why}; run fxport in a container.")
    return program


def _with_drafts(args: Sequence[str], stack: ExitStack, outputs: list[Output]) -> Iterator[str]:
    """Yield the command line with places in draft folders for its outputs, which are added to `outputs`."""
    waiting: str | None = None
    for each in args:
        name, equals, value = each.partition("=")
        if waiting is not None:
            yield str(_draft(args[0], waiting, each, stack, outputs))
            waiting = None
        elif equals and name in (*FILES, *FOLDERS):
            yield f"{name}={_draft(args[0], name, value, stack, outputs)}"
        else:
            waiting = each if each in (*FILES, *FOLDERS) else None
            yield each


def _draft(command: str, option: str, value: str, stack: ExitStack, outputs: list[Output]) -> Path:
    target = Path(value).absolute()
    is_folder = option in FOLDERS or (command == "package" and option != "--sarif")
    try:
        if option not in ("-o", "--output"):
            target.parent.mkdir(parents=True, exist_ok=True)
        draft = stack.enter_context(draft_folder(target.parent)) / target.name
    except OSError as error:
        raise UsageError(f"{option} '{value}' cannot be written: {error.strerror}; name another place.") from error
    outputs.append(Output(target, draft, is_folder, is_whole=is_folder and option not in FOLDERS))
    return draft


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
        data = next((each for each in beside if each.name.endswith(".data")), None)
        with saving(output.target) as folder:
            moved = [each.rename(folder / each.name) for each in beside]
            model = folder / output.draft.name
            output.draft.rename(model)
            for each in moved:
                if data is None or each.name != data.name:
                    sync_file(each)
                    put(each, output.target.parent / each.name)
            put_in_place(output.target, model, None if data is None else folder / data.name)


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
